//===- CPULowerings.h - The ops that CPU targets lower ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_CPULOWERINGS_H
#define SEXTANT_CODEGEN_CPU_CPULOWERINGS_H

#include "codegen/LowerAttention.h"

namespace sextant::codegen {

/// Launches: tables of hoisted values, delta, the main kernel, dQ from its
/// partial sums, gradients of hoisted values from theirs, parameters.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerAttentionBackward(const Lowering &lowering);

/// Row maps outside attention: tables of hoisted values, one pass over rows.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerMapRows(const Lowering &lowering);

/// Their gradient, and that of tables read per row (learned embeddings).
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerMapRowsBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_CPULOWERINGS_H
