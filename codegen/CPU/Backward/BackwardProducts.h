//===- BackwardProducts.h - Products of rows in the backward ----*- C++ -*-===//
//
// Products of the point's query row and keys with rows of tables and of
// offsets, which other launches and the loop nest have made, and the sums that
// take the gradients of the products.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPRODUCTS_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPRODUCTS_H

#include "codegen/CPU/Backward/CellVector.h"

namespace sextant::codegen {

class BackwardProducts {
public:
  explicit BackwardProducts(const CellVector &at)
      : at(at), kernel(at.place.kernel) {}

  /// Two vectors.
  void setMemory(mlir::Value lanes) { lanesMemory = lanes; }
  /// Where products of the cell with rows of offsets are, and where their
  /// cotangents go: row r is r * stride on, in gradients r times that of a tile
  /// of scores.
  void setOffsetCell(llvm::ArrayRef<mlir::Value> products, int64_t stride,
                     llvm::ArrayRef<mlir::Value> gradients) {
    offsetProducts = llvm::to_vector(products);
    offsetStride = stride;
    offsetGradients = llvm::to_vector(gradients);
  }

  // At the point, see PayloadPoint.
  mlir::Value rowDot(pos::RowDotOpInterface op, mlir::Value index);
  void addToRowDot(pos::RowDotOpInterface op, mlir::Value index,
                   mlir::Value cotangent);
  /// Entry `index` of the query row's products with a table of `rows` rows, and
  /// the sum that takes its gradient. `runs`: lanes may be a LaneRun.
  mlir::Value readQueryProducts(unsigned products, Index rows,
                                mlir::Value index, bool runs);
  void addToQueryProducts(unsigned sums, Index rows, mlir::Value index,
                          mlir::Value addend, bool runs);

private:
  void addToKeyProducts(unsigned sums, Index rows, mlir::Value index,
                        mlir::Value addend);
  mlir::Value offsetDot(pos::OffsetDotOp op, mlir::Value index);

  const CellVector &at;
  KernelBuilder &kernel;
  mlir::Value lanesMemory;
  llvm::SmallVector<mlir::Value> offsetProducts, offsetGradients;
  int64_t offsetStride = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPRODUCTS_H
