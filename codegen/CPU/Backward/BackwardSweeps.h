//===- BackwardSweeps.h - Sweeps over tiles of keys for scans ---*- C++ -*-===//
//
// The gradient of a running sum needs the total of a row before the first key's
// gradient: the backward goes over the tiles once for the totals of each level
// of scans, then for the gradients. Where a level is the only one and one tile
// has all keys, which is found out when the kernel runs, each block of queries
// takes both sweeps before the next one.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSWEEPS_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSWEEPS_H

#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/CPU/Backward/BackwardPoint.h"
#include <optional>

namespace sextant::codegen {

/// The sweeps over the tiles of keys that scans need; one without scans. Of
/// each level of scans a sweep sums up the cotangents of each row, and the last
/// sweep subtracts those of the keys that it has passed.
class BackwardSweeps {
public:
  BackwardSweeps(BackwardItem &at, BackwardPoint &point)
      : at(at), point(point) {}

  /// Runs `sweep`, which goes over all tiles for some query heads: for the
  /// totals of each level of scans, then for the gradients.
  void forEach(Index firstHead, Index heads, llvm::function_ref<void()> sweep);
  /// Runs `body`, which does what a sweep does with a block of queries. Where
  /// one tile has all keys, both sweeps: so the block comes once from beyond
  /// the second cache.
  void forBlock(llvm::function_ref<void()> body);
  /// Runs `body`, which stores the gradients of a tile, if the sweep makes
  /// them.
  void forGradients(llvm::function_ref<void()> body);
  /// Whether the sweep is one for totals, which wants no gradients.
  bool isForTotals() const {
    return point.scans.getSweep() == BackwardScans::Sweep::Totals;
  }
  /// What of a block is left to do, where some of it is visible.
  mlir::Value emitRest(mlir::Value isSeen);
  /// Place 0, step, ... of `count` in the order of the scans.
  Index inOrder(Index place, Index count, int64_t step);
  /// Writes a cell with its scans and, for a group of rows whose scans have all
  /// reached their limits, without them.
  void emitCell(Index group, llvm::function_ref<void()> cell);

private:
  using State = BackwardScans::State;
  void clearHead(llvm::ArrayRef<State> states, Index first, Index rows);
  void clear(llvm::ArrayRef<State> states, Index firstHead, Index heads);
  void forBothSweeps(Index firstHead, Index heads,
                     llvm::function_ref<void()> sweep);

  BackwardItem &at;
  BackwardPoint &point;
  /// Where sweeps are told apart when the kernel runs: the sweeps over tiles,
  /// one or two, the number of the one that runs, and how many each has of a
  /// block.
  std::optional<Index> sweepCount;
  Index number = 0, ofBlock = 1;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDSWEEPS_H
