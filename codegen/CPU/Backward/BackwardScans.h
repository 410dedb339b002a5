//===- BackwardScans.h - Running sums of the backward -----------*- C++ -*-===//
//
// Lanes are keys. A running sum is a scan over the lanes of a vector on top of
// what the tiles before it left in the row's carry, so tiles, panels and
// vectors follow the direction of the scans.
//
// The gradient of a value is the sum of the cotangents of the keys at and after
// it, in the opposite direction. Instead of the opposite order of tiles, whose
// running sums would have to be kept, a first sweep sums up the cotangents of
// each row and the second subtracts those of the keys that it has passed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSCANS_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSCANS_H

#include "codegen/CPU/Backward/CellVector.h"

namespace sextant::codegen {

/// The running sums of the backward, and their gradients.
class BackwardScans {
public:
  explicit BackwardScans(const CellVector &at)
      : at(at), kernel(at.place.kernel), plan(at.launch.plan) {}

  /// Per row and scan: the sum of the values so far; the sum of all cotangents
  /// and that of the keys passed so far.
  enum class State { Carry, Total, Passed };
  /// What the sweep over the tiles is for: with scans there is one for the
  /// totals of each level of scans, from 0 on, before that for the gradients.
  enum class Sweep { Gradients, Totals };
  void setSweep(Sweep value, unsigned level = 0) {
    sweep = value;
    totalsLevel = level;
  }
  Sweep getSweep() const { return sweep; }
  /// Memory for the sums of a cell, [scans][rows][panel].
  void setMemory(mlir::Value sums) { cellSums = sums; }
  /// Rows past the end count as having reached every limit.
  void clear(State state, Index first, Index rows);

  /// Whether the scans of `count` rows have reached their limits, an i1; null
  /// if that is not known. `count` is a multiple of the rows of a cell.
  mlir::Value emitSaturated(Index first, int64_t count);
  /// Where they have, scans are constants.
  void setSaturated(bool value) { isSaturated = value; }
  /// Whether the sums of the cell are there already.
  void setReplays(bool value) { replays = value; }
  /// Which lanes are visible; null: all are.
  void setVisible(mlir::Value lanes) { visible = lanes; }

  // At the point, see PayloadPoint.
  mlir::Value scan(pos::ScanOp op, mlir::Value value, mlir::Value limit);
  mlir::Value pull(pos::ScanOp op, mlir::Value limit, mlir::Value cotangent);

private:
  mlir::Value getState(State state, unsigned scan, Index query);
  mlir::Value getCellSums(unsigned scan);
  mlir::Value scanLanes(mlir::Value lanes);
  mlir::Value getLastLane(mlir::Value lanes);

  const CellVector &at;
  KernelBuilder &kernel;
  const KernelPlan &plan;
  Sweep sweep = Sweep::Gradients;
  unsigned totalsLevel = 0;
  bool isSaturated = false, replays = false;
  mlir::Value visible, cellSums;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSCANS_H
