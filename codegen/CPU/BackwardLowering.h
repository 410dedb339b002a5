//===- BackwardLowering.h - The backward on the CPU -------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARDLOWERING_H
#define SEXTANT_CODEGEN_CPU_BACKWARDLOWERING_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Lowers `pos.attention_backward` to launches: tables of hoisted values,
/// delta, the main kernel, dQ from its partial sums, gradients of hoisted
/// values from theirs, parameters.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARDLOWERING_H
