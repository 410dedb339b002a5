//===- NnGradients.h - What derivatives are made of -------------*- C++ -*-===//
//
// The derivative of each op is written in ops of nn again, so that a gradient
// is a graph like any other. These functions create what several derivatives
// need.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_NN_IR_NNGRADIENTS_H
#define SEXTANT_DIALECTS_NN_IR_NNGRADIENTS_H

#include "dialects/Nn/IR/Nn.h"

namespace sextant::nn {

/// The numbers of all dimensions but the last.
llvm::SmallVector<int64_t> allButLast(mlir::Value value);

/// The dynamic sizes of a value, as index values.
llvm::SmallVector<mlir::Value>
dynamicSizes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// The value as [rows, n], where n is its last dimension.
mlir::Value flattenRows(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value);

/// The sum over dimensions; the value itself if there are none.
mlir::Value sum(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                llvm::ArrayRef<int64_t> dims, bool keep = false);

/// The gradient of an operand that was broadcast to the shape of `gradient`:
/// the sum of the gradients of its copies.
mlir::Value sumToShapeOf(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value gradient, mlir::Value operand);

} // namespace sextant::nn

#endif // SEXTANT_DIALECTS_NN_IR_NNGRADIENTS_H
