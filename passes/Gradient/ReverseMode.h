//===- ReverseMode.h - Reverse-mode differentiation of a block --*- C++ -*-===//
//
// Reverse mode goes through the ops of a block from last to first and asks each
// for the gradients of its operands; contributions to one value are added.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_GRADIENT_REVERSEMODE_H
#define SEXTANT_PASSES_GRADIENT_REVERSEMODE_H

#include "mlir/IR/Builders.h"

namespace sextant::passes {

/// Appends to the block, before its terminator, the gradients of `loss` (a
/// scalar made in the block) with respect to `inputs` (arguments of the block):
/// one value per input, zeros where the loss does not depend on it. `count`
/// grows by the number of ops whose derivative was built.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
appendGradients(mlir::Block &block, mlir::Value loss, mlir::ValueRange inputs,
                unsigned &count);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_GRADIENT_REVERSEMODE_H
