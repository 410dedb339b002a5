//===- MatrixExponential.h - Exponentials of small matrices -----*- C++ -*-===//
//
// Scaling and squaring with a Taylor polynomial, in double, in scratch memory:
// exp(A) = T(A / 2^s)^(2^s), where s makes the norm at most 1/8 and the terms
// past the tenth are below 2^-57. The derivative in a direction runs along with
// it (Al-Mohy and Higham 2009, section 2), so nothing is kept for a pullback.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_MATRIXEXPONENTIAL_H
#define SEXTANT_CODEGEN_MATRIXEXPONENTIAL_H

#include "codegen/KernelBuilder.h"

namespace sextant::codegen {

/// Writes the loops for matrices of one size. A matrix stands row by row in
/// memory, rows padded to `stride` elements and as many rows; the padding is
/// zero before and after.
class MatrixExponential {
public:
  MatrixExponential(KernelBuilder &kernel, int64_t size);

  /// Elements (f64) of a matrix, and of one of its rows.
  int64_t getElements() const { return stride * stride; }
  int64_t getStride() const { return stride; }

  mlir::Value load(mlir::Value matrix, Index row, Index column);
  void store(mlir::Value value, mlir::Value matrix, Index row, Index column);
  /// `count` elements from an address on, a multiple of a vector of them.
  void clear(mlir::Value address, int64_t count);
  /// address[0 .. stride - 1] += factor * row[0 .. stride - 1].
  void addRow(mlir::Value factor, mlir::Value row, mlir::Value address);
  /// result = row * matrix, for a padded row.
  void multiplyRow(mlir::Value row, mlir::Value matrix, mlir::Value result);

  /// result = exp(matrix). `matrix` is scaled in place; `work` is one matrix.
  void exponential(mlir::Value matrix, mlir::Value result, mlir::Value work);

  /// A direction, scaled in place, the derivative of the exponential in it, and
  /// memory for one matrix.
  struct Derivative {
    mlir::Value direction, result, work;
  };
  void exponential(mlir::Value matrix, mlir::Value result, mlir::Value work,
                   const Derivative &derivative);

private:
  mlir::Value loadVector(mlir::Value matrix, Index row, Index column);
  mlir::Value constant(double value);
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value getNorm(mlir::Value matrix);
  /// c = a b, or c += a b; `rows` of a, 1 or a multiple of four.
  void multiply(mlir::Value a, mlir::Value b, mlir::Value c, int64_t rows,
                bool adds);
  /// to = factor * from, plus the identity if asked for.
  void scale(mlir::Value from, mlir::Value factor, mlir::Value to,
             bool addsIdentity);
  void run(mlir::Value matrix, mlir::Value result, mlir::Value work,
           const Derivative *derivative);

  KernelBuilder &kernel;
  int64_t size, lanes, stride;
  mlir::FloatType f64;
  mlir::VectorType vector;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_MATRIXEXPONENTIAL_H
