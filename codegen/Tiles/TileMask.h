//===- TileMask.h - What the mask says of a tile of scores ------*- C++ -*-===//
//
// Asks the classes of tiles (codegen/Payload/MaskTiles.h) at the place where a
// kernel stands: ranges of indices follow from the tile, those of hoisted
// vectors and of given positions are looked up (codegen/Tables/RowRanges.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_TILEMASK_H
#define SEXTANT_CODEGEN_TILES_TILEMASK_H

#include "codegen/Payload/MaskTiles.h"
#include "codegen/Tables/RowRanges.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// Some rows of one side of a head, and the ranges of what the mask takes from
/// them, as `getRowSources` (unknown for sources of the other side).
struct TileSide {
  Index first = 0, last = 0; ///< rows of the tensor
  llvm::SmallVector<pos::ValueRange32> values;
};

/// What the mask says of a tile, as a kernel keeps it in memory (i64).
struct TileKind {
  static constexpr int64_t hidden = 0, masked = 1, visible = 2;
};

/// Whether the mask may differ between heads (a tile of all heads has no class
/// then) or elements of the batch.
bool variesWith(const KernelPlan &plan, pos::Axis axis);

/// Says of a tile whether the mask hides it, shows it or cuts it.
class TileMask {
public:
  /// `point` tells head and extents.
  TileMask(KernelBuilder &kernel, ArgumentBlock &arguments, TilePoint &point,
           const KernelPlan &plan, const SiteOperands &operands)
      : kernel(kernel), arguments(arguments), point(point), plan(plan),
        operands(operands), sources(getRowSources(plan)) {}

  /// Rows first .. first + count - 1 of the head at which the point stands, one
  /// at least. Costs a load of two numbers per source and `rowsPerRange` rows:
  /// ask once where tiles share rows. `first` is a multiple of `unit`, and
  /// `count` at most `unit`.
  TileSide enter(pos::Side side, Index first, Index count, int64_t unit);

  /// The class of the tile of two sides; unknown without a mask.
  TileClass classify(const TileSide &query, const TileSide &key);

private:
  pos::ValueRange32 getRange(unsigned source, Index first, Index last,
                             bool isOne);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  TilePoint &point;
  const KernelPlan &plan;
  const SiteOperands &operands;
  llvm::SmallVector<RowSource> sources;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_TILEMASK_H
