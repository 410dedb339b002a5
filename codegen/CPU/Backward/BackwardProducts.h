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
#include "codegen/Tiles/BandCell.h"

namespace sextant::codegen {

/// Looks up the products of a point, and adds to the sums of their gradients.
class BackwardProducts {
public:
  explicit BackwardProducts(const CellVector &at)
      : at(at), kernel(at.place.kernel) {}

  /// Two vectors.
  void setMemory(mlir::Value lanes) { lanesMemory = lanes; }
  /// Where product `number` of the plan's with rows of offsets is.
  void setBandCell(size_t number, const BandCell &cell) {
    bandCells.resize(std::max(bandCells.size(), number + 1));
    bandCells[number] = cell;
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
  llvm::SmallVector<BandCell> bandCells;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPRODUCTS_H
