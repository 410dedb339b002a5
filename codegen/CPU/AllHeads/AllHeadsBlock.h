//===- AllHeadsBlock.h - A block of scores of all heads ---------*- C++ -*-===//
//
// The backward's tiles of scores of all heads, for a block of queries and a
// panel of keys, and what happens to them between products: masks, and payloads
// with their pullbacks.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBLOCK_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBLOCK_H

#include "codegen/CPU/AllHeads/AllHeadsBackwardPoint.h"
#include "codegen/CPU/Backward/BackwardVisibility.h"
#include "codegen/Tiles/PiecewiseLinearTile.h"
#include "codegen/Tiles/ScoreForm.h"

namespace sextant::codegen {

/// Memory of a block: tiles per head, [queries][keys], and rows of statistics.
struct AllHeadsTiles {
  explicit AllHeadsTiles(BackwardItem &at);

  int64_t heads;
  int64_t stride;        ///< from a tile of a head to the next
  int64_t visibleStride; ///< likewise of `visible`; 0 where heads see the same
  mlir::Value scores;    ///< S, then P
  mlir::Value gradients; ///< dP - delta, then dS
  mlir::Value visible;   ///< f32, 1 or 0
  mlir::Value negativeShift, inverseSum, delta; ///< [queries]
  BackwardItem &at;

  /// A row of a head, in `scores` or `gradients`.
  mlir::Value getRow(mlir::Value tiles, Index head, Index row) const;
  mlir::Value getVisible(Index head, Index row) const;
  /// Loads what the softmax needs of the rows of the block.
  void loadStatistics();
};

/// What the mask leaves of a block: whole groups of rows, then lanes.
class AllHeadsMask {
public:
  AllHeadsMask(AllHeadsTiles &tiles, BackwardPoint &point,
               BackwardVisibility &visibility);

  void enterTile();
  /// Of `count` rows; where masks differ between heads nothing is known.
  Visibility classifyRows(Index first, int64_t count);
  /// Finds the kinds of the groups of the block; gives the range of rows that
  /// may see some key.
  std::pair<Index, Index> classifyGroups();
  /// Stores which lanes the rows see. Gradients of the others become zero, so
  /// that whatever stands there reaches no sum, and so do scores, unless other
  /// heads see them: their payloads read the scores of all heads.
  void emitLanes(Index low, Index high);

private:
  void maskRow(Index number, Index row);

  AllHeadsTiles &tiles;
  BackwardItem &at = tiles.at;
  KernelBuilder &kernel = at.kernel;
  const BackwardShape &shape = at.shape;
  BackwardPoint &point;
  BackwardVisibility &visibility;
  TileSide keySide;  ///< the tile of keys
  mlir::Value kinds; ///< i64 per group of rows: what the mask says of it
};

/// The payloads of a block and their pullbacks: P replaces S, dS replaces dP.
class AllHeadsPayloads {
public:
  AllHeadsPayloads(AllHeadsTiles &tiles, AllHeadsBackwardPoint &point,
                   PiecewiseLinearTile &hinges, const ScoreForm &form)
      : tiles(tiles), point(point), hinges(hinges), form(form) {}

  void emit(Index low, Index high);

private:
  void moveTo(Index group, Index row, Index lane);
  void emitGroups(Index step, Index end);
  void emitRows(Index step, Index group, Index end);
  void emitPoint(Index row, Index lane);

  AllHeadsTiles &tiles;
  BackwardItem &at = tiles.at;
  KernelBuilder &kernel = at.kernel;
  const BackwardShape &shape = at.shape;
  AllHeadsBackwardPoint &point;
  PiecewiseLinearTile &hinges;
  const ScoreForm &form;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBLOCK_H
