//===- Stages.h - What may exist after each stage ---------------*- C++ -*-===//
//
// Each stage keeps what the one before it promises.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_VERIFY_STAGES_H
#define SEXTANT_PASSES_VERIFY_STAGES_H

#include "mlir/IR/BuiltinOps.h"

namespace sextant::passes {

mlir::LogicalResult verifyInlined(mlir::ModuleOp module);
mlir::LogicalResult verifyFused(mlir::ModuleOp module);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_VERIFY_STAGES_H
