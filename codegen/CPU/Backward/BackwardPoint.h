//===- BackwardPoint.h - Where the backward emits score payloads ----------===//
//
// The backward's side of the seam: lanes are keys, rows are unrolled. Gradients
// that a payload gives are collected per point; the kernel decides where they
// go.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPOINT_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPOINT_H

#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/CPU/Backward/BackwardProducts.h"
#include "codegen/CPU/Backward/BackwardScans.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// The cotangent of a hoisted value at a point.
struct HoistCotangent {
  pos::HoistOp hoist;
  mlir::Value value;
};

/// Points (query row, vector of keys) of one query head. Rows are rows of the
/// tensors; those past the end are clamped where memory would be left.
class BackwardPoint : public TilePoint {
  CellVector at;

public:
  BackwardPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
                const BackwardLaunch &launch)
      : TilePoint(kernel, arguments, launch.plan, launch.sites,
                  pos::RowOperand::query),
        at{launch, headPlace}, scans(at), products(at) {}

  BackwardScans scans;
  BackwardProducts products;

  /// Whose partial sums take the gradients of direct reads.
  void enterItem(BackwardItem &item) {
    at.chunk = item.chunk;
    at.part = item.part;
    at.sum = item.getSum();
    at.kvHead = item.kvHead;
  }
  /// The first query and the first key of the points to come.
  void enterCell(Index firstQuery, Index firstKey) {
    at.firstQuery = firstQuery;
    at.firstKey = firstKey;
  }
  void setPoint(Index row, Index vector) {
    at.row = row;
    at.vector = vector;
    cotangents.clear();
  }

  Index getPart() const { return at.part; }
  Index getSum() const { return at.sum; }
  Index getQuery() const { return at.getQuery(); }
  Index getKey() const { return at.getKey(); }
  /// Gradients of hoisted values at the last point, one per hoist.
  llvm::ArrayRef<HoistCotangent> getCotangents() const { return cotangents; }

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override;
  bool wantsGradient(mlir::BlockArgument param) override;
  mlir::Value pullHingeSum(mlir::OpBuilder &, pos::HingeSumOp op,
                           mlir::Value cotangent) override;
  bool wantsUnits(pos::HingeSumOp op) override;

  mlir::Value rowDot(mlir::OpBuilder &, pos::RowDotOpInterface op,
                     mlir::Value index) override {
    return products.rowDot(op, index);
  }
  void addToRowDot(mlir::OpBuilder &, pos::RowDotOpInterface op,
                   mlir::Value index, mlir::Value cotangent) override {
    if (scans.getSweep() != BackwardScans::Sweep::Totals)
      products.addToRowDot(op, index, cotangent);
  }
  mlir::Value scan(mlir::OpBuilder &, pos::ScanOp op, mlir::Value value,
                   mlir::Value limit) override {
    return scans.scan(op, value, limit);
  }
  mlir::Value pullScan(mlir::OpBuilder &, pos::ScanOp op, mlir::Value limit,
                       mlir::Value cotangent) override {
    return scans.pull(op, limit, cotangent);
  }

  mlir::Value getLaneCodes() override;
  mlir::Value getRowCode() override;

protected:
  Index getCellPlace() override;
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  llvm::SmallVector<HoistCotangent> cotangents;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPOINT_H
