//===- ThreadArithmetic.h - Numbers and loops of a thread -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_THREADARITHMETIC_H
#define SEXTANT_CODEGEN_CUDA_SM80_THREADARITHMETIC_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// Writes what a thread computes by itself, in numbers of 32 bits.
class ThreadArithmetic {
public:
  using Values = KernelBuilder::Values;

  explicit ThreadArithmetic(KernelBuilder &kernel)
      : kernel(kernel), builder(kernel.builder), loc(kernel.loc) {}

  KernelBuilder &kernel;

  //===--- Integers of 32 bits -------------------------------------------===//

  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  /// Quotient and remainder of numbers that are not negative; by a power of two
  /// a shift and a mask.
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  /// Signed.
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value constant(int64_t value);
  /// How many bits are set.
  mlir::Value countBits(mlir::Value bits);

  //===--- Loops ---------------------------------------------------------===//

  /// While `condition` holds of the carried values, `body` makes the next ones.
  Values loopWhile(mlir::ValueRange initial,
                   llvm::function_ref<mlir::Value(mlir::ValueRange)> condition,
                   llvm::function_ref<Values(mlir::ValueRange)> body);

  //===--- Numbers -------------------------------------------------------===//

  /// The larger and the smaller one; where one is NaN the other.
  mlir::Value maxNumber(mlir::Value a, mlir::Value b);
  mlir::Value minNumber(mlir::Value a, mlir::Value b);
  /// Likewise, but NaN where one is.
  mlir::Value most(mlir::Value a, mlir::Value b);
  mlir::Value least(mlir::Value a, mlir::Value b);
  /// a * b + c, between 0 and 1; 0 for NaN.
  mlir::Value saturatedFma(mlir::Value a, mlir::Value b, mlir::Value c);

protected:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_THREADARITHMETIC_H
