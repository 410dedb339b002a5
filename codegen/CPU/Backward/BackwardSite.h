//===- BackwardSite.h - Where the backward emits score payloads -*- C++ -*-===//
//
// The backward's side of the seam: lanes are keys, rows are unrolled. Gradients
// that a payload gives are collected per point; the kernel decides where they
// go.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSITE_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSITE_H

#include "codegen/CPU/Backward/BackwardTask.h"

namespace sextant::codegen {

/// The cotangent of a hoisted value at a point.
struct HoistCotangent {
  pos::HoistOp hoist;
  mlir::Value value;
};

/// Points (query row, vector of keys) of one query head. Rows are rows of the
/// tensors; those past the end are clamped where memory would be left.
class BackwardSite : public KernelSite {
public:
  BackwardSite(KernelBuilder &kernel, ArgumentBlock &arguments,
               const BackwardTask &task)
      : KernelSite(kernel, arguments, task.plan, task.sites,
                   pos::RowOperand::query),
        task(task) {}

  /// Whose partial sums take the gradients of direct reads.
  void enterItem(Index chunk, Index kvHead) {
    this->chunk = chunk;
    this->kvHead = kvHead;
  }
  /// The first query and the first key of the points to come.
  void enterCell(Index firstQuery, Index firstKey) {
    this->firstQuery = firstQuery;
    this->firstKey = firstKey;
  }
  void setPoint(Index row, Index vector) {
    this->row = row;
    this->vector = vector;
    cotangents.clear();
  }

  Index getChunk() const { return chunk; }
  Index getBatch() const { return batchIndex; }
  Index getHead() const { return headIndex; }
  Index getQuery() { return kernel.add(firstQuery, row); }
  Index getKey() {
    return kernel.add(firstKey, kernel.mul(vector, kernel.width()));
  }
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

  // Contextual places, in BackwardContextual.cpp.

  mlir::Value rowDot(mlir::OpBuilder &, pos::RowDotOpInterface op,
                     mlir::Value index) override;
  void addToRowDot(mlir::OpBuilder &, pos::RowDotOpInterface op,
                   mlir::Value index, mlir::Value cotangent) override;
  mlir::Value scan(mlir::OpBuilder &, pos::ScanOp op, mlir::Value value,
                   mlir::Value limit) override;
  mlir::Value pullScan(mlir::OpBuilder &, pos::ScanOp op, mlir::Value limit,
                       mlir::Value cotangent) override;
  /// Where products of the cell with rows of offsets are, and where their
  /// cotangents go: row r is r * stride on, in gradients r times that of a tile
  /// of scores.
  void setOffsetCell(llvm::ArrayRef<mlir::Value> products, int64_t stride,
                     llvm::ArrayRef<mlir::Value> gradients) {
    offsetProducts = llvm::to_vector(products);
    offsetStride = stride;
    offsetGradients = llvm::to_vector(gradients);
  }
  /// Entry `index` of the query row's products with a table of `rows` rows, and
  /// the sum that takes its gradient.
  mlir::Value readQueryProducts(unsigned products, Index rows,
                                mlir::Value index);
  void addToQueryProducts(unsigned sums, Index rows, mlir::Value index,
                          mlir::Value addend);

  /// Per row and scan: the sum of the values so far; the sum of all cotangents
  /// and that of the keys passed so far.
  enum class ScanState { Carry, Total, Passed };
  /// What the sweep over the tiles is for: with scans there is one for the
  /// totals of each level of scans, from 0 on, before that for the gradients.
  enum class Sweep { Gradients, Totals };
  void setSweep(Sweep value, unsigned level = 0) {
    sweep = value;
    totalsLevel = level;
  }
  Sweep getSweep() const { return sweep; }
  /// Memory for the sums of a cell, [scans][rows][panel], and two vectors.
  void setMemory(mlir::Value sums, mlir::Value lanes) {
    cellSums = sums;
    lanesMemory = lanes;
  }
  /// Whether the scans of `count` rows have reached their limits, an i1; null
  /// if that is not known.
  mlir::Value emitSaturated(Index first, int64_t count);
  /// Where they have, scans are constants.
  void setSaturated(bool value) { isSaturated = value; }
  /// Whether the sums of the cell are there already.
  void setReplays(bool value) { replays = value; }
  /// Which lanes are visible; null: all are.
  void setVisible(mlir::Value lanes) { visible = lanes; }
  void clearScans(ScanState state, Index rows);

  mlir::Value getLaneCodes() override;
  mlir::Value getRowCode() override;

protected:
  Index getCellPlace() override;
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  void addToKeyProducts(unsigned sums, Index rows, mlir::Value index,
                        mlir::Value addend);
  mlir::Value offsetDot(pos::OffsetDotOp op, mlir::Value index);
  void addToOffsetDot(pos::OffsetDotOp op, mlir::Value cotangent);
  mlir::Value getScanState(ScanState state, unsigned scan, Index query);
  mlir::Value getCellSums(unsigned scan);
  mlir::Value scanLanes(mlir::Value lanes);
  mlir::Value getLastLane(mlir::Value lanes);

  const BackwardTask &task;
  Sweep sweep = Sweep::Gradients;
  unsigned totalsLevel = 0;
  bool isSaturated = false, replays = false;
  mlir::Value visible, cellSums, lanesMemory;
  llvm::SmallVector<mlir::Value> offsetProducts, offsetGradients;
  int64_t offsetStride = 0;
  Index chunk = 0, kvHead = 0;
  Index firstQuery = 0, firstKey = 0, row = 0, vector = 0;
  llvm::SmallVector<HoistCotangent> cotangents;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSITE_H
