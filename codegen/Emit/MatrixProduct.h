//===- MatrixProduct.h - Products of small matrices in double ---*- C++ -*-===//
//
// Matrices stand row by row in memory, rows apart by one stride, whose lanes
// past the last column hold zeros. Sums of a tile of rows by vectors stay in
// registers, over all terms of a sum of products.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_MATRIXPRODUCT_H
#define SEXTANT_CODEGEN_EMIT_MATRIXPRODUCT_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// Writes the loops of products with a number of columns.
class MatrixProduct {
public:
  MatrixProduct(KernelBuilder &kernel, int64_t columns);

  /// Elements from a row to the next, and of a vector.
  int64_t getStride() const { return stride; }
  int64_t getLanes() const { return lanes; }
  mlir::VectorType getVector() const { return vector; }

  /// Rows that a product takes together where the kernel alone knows how many
  /// there are: there is memory for a multiple of them.
  static constexpr int64_t rowsAtOnce = 4;

  /// A product a b, with a[i][k] at i * rowStep + k * depthStep.
  struct Term {
    mlir::Value a;
    int64_t rowStep, depthStep;
    mlir::Value b;
  };
  /// The term of two matrices.
  Term term(mlir::Value a, mlir::Value b) const { return {a, stride, 1, b}; }

  /// result[i][j] = sum over the terms and over k < `depth`, for i < `rows`;
  /// with `adds` added to what is there. The result is none of the factors.
  void multiply(llvm::ArrayRef<Term> terms, mlir::Value result, Index rows,
                Index depth, bool adds = false);

private:
  struct Tile {
    Index row;
    int64_t rows;
    Index firstVector;
    int64_t vectors;
  };
  void multiplyPanel(llvm::ArrayRef<Term> terms, mlir::Value result,
                     Index firstVector, int64_t vectors, Index rows,
                     Index depth, bool adds);
  void multiplyTile(llvm::ArrayRef<Term> terms, mlir::Value result,
                    const Tile &tile, Index depth, bool adds);

  KernelBuilder &kernel;
  int64_t columns, lanes, stride;
  mlir::FloatType f64;
  mlir::VectorType vector;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_MATRIXPRODUCT_H
