//===- DenseCalls.h - Creation of calls of ATen -----------------*- C++ -*-===//
//
// These functions create an `exec.dense`, the call of an operator of ATen.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_DENSECALLS_H
#define SEXTANT_PASSES_SCHEDULE_DENSECALLS_H

#include "dialects/Exec/IR/Exec.h"
#include "dialects/Nn/IR/AtenArguments.h"

namespace sextant::passes {

/// Creates a call of an operator.
exec::DenseOp createDense(mlir::OpBuilder &builder, mlir::Location loc,
                          llvm::StringRef op,
                          llvm::ArrayRef<nn::AtenArgument> arguments,
                          mlir::TypeRange results);

/// A call that gives one tensor.
mlir::Value createDenseValue(mlir::OpBuilder &builder, mlir::Location loc,
                             llvm::StringRef op,
                             llvm::ArrayRef<nn::AtenArgument> arguments,
                             mlir::Type result);

/// A constant of rank 0 and the given element type.
mlir::Value createScalar(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Type elementType, double value);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_DENSECALLS_H
