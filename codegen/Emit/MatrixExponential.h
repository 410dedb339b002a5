//===- MatrixExponential.h - Exponentials of small matrices -----*- C++ -*-===//
//
// Scaling and squaring with a Taylor polynomial, in double, in scratch memory:
// exp(A) = T(A / 2^s)^(2^s), where s makes the norm at most 1 and the terms
// past the eighteenth are below 2^-56. T takes five products (Bader, Blanes and
// Casas 2019, section 3). The derivative in a direction runs along with it
// (Al-Mohy and Higham 2009, section 2), so nothing is kept for a pullback.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_MATRIXEXPONENTIAL_H
#define SEXTANT_CODEGEN_EMIT_MATRIXEXPONENTIAL_H

#include "codegen/Emit/MatrixProduct.h"

namespace sextant::codegen {

/// Writes the loops for matrices of one size, laid out as `MatrixProduct` says.
class MatrixExponential {
public:
  MatrixExponential(KernelBuilder &kernel, int64_t size);

  /// Elements (f64) of a matrix, of whole lines of cache, and of a row.
  int64_t getElements() const;
  int64_t getStride() const { return product.getStride(); }

  mlir::Value load(mlir::Value matrix, Index row, Index column);
  void store(mlir::Value value, mlir::Value matrix, Index row, Index column);
  /// The first `rows` rows.
  void clear(mlir::Value matrix, Index rows);
  /// Elements from an address on, a multiple of `getLanes()`.
  void clearElements(mlir::Value address, Index count);
  int64_t getLanes() const { return product.getLanes(); }

  /// result = rows * matrix for `count` rows. There is memory for a multiple of
  /// `MatrixProduct::rowsAtOnce` of them.
  void multiplyRows(mlir::Value rows, Index count, mlir::Value matrix,
                    mlir::Value result);
  /// sum += the sum over `count` rows of a^T b.
  void addOuterProducts(mlir::Value a, mlir::Value b, Index count,
                        mlir::Value sum);

  /// Matrices that an exponential, or that and its derivative, works on.
  static constexpr int64_t workMatrices = 5;
  /// The first holds A (the direction), the others are free; what they hold
  /// afterwards is undefined, but for the result, which is one of them.
  using Work = llvm::ArrayRef<mlir::Value>;

  mlir::Value exponential(Work work);
  struct WithDerivative {
    mlir::Value result, derivative;
  };
  WithDerivative exponential(Work work, Work directions);

private:
  mlir::Value constant(double value);
  mlir::Value broadcast(mlir::Value scalar);
  /// Runs `body` for every vector of a matrix.
  void forEachVector(llvm::function_ref<void(Index)> body);
  mlir::Value getVector(mlir::Value matrix, Index element);
  void setVector(mlir::Value value, mlir::Value matrix, Index element);
  void multiply(llvm::ArrayRef<MatrixProduct::Term> terms, mlir::Value result,
                bool adds = false);
  /// result = the sum of the terms.
  struct Product {
    llvm::SmallVector<MatrixProduct::Term, 2> terms;
    mlir::Value result;
  };
  /// Makes products of as many terms each, in their order.
  void multiplyEach(llvm::ArrayRef<Product> products);
  mlir::Value getNorm(mlir::Value matrix);
  Index scale(mlir::Value matrix, mlir::Value direction);
  void add(mlir::Value matrix, mlir::Value to);
  void combine(Work work, bool addsIdentity);
  void evaluate(Work work, Work directions);
  WithDerivative run(Work work, Work directions);

  KernelBuilder &kernel;
  int64_t size;
  MatrixProduct product;
  mlir::FloatType f64;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_MATRIXEXPONENTIAL_H
