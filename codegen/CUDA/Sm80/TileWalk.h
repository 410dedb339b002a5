//===- TileWalk.h - Which tiles a block goes through ------------*- C++ -*-===//
//
// Tiles of columns that the mask hides from all rows of a block are left out.
// Each lane of a warp asks for the class of one tile, so that two ballots know
// those of 32 tiles. All threads of a block come to the same tiles.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_TILEWALK_H
#define SEXTANT_CODEGEN_CUDA_SM80_TILEWALK_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Tiles/TileMask.h"

namespace sextant::codegen {

/// The tiles that a block visits, in order, with the class of each.
class TileWalk {
public:
  using Values = KernelBuilder::Values;

  /// `length` columns in all (i32).
  TileWalk(ThreadBuilder &thread, const KernelPlan &plan, TileMask &mask,
           const ScoreTile &shape, mlir::Value length)
      : thread(thread), kernel(thread.kernel), plan(plan), mask(mask),
        shape(shape), length(length) {}

  /// Whether all rows of the block exist (i1), where scores of those that do
  /// not are hidden, too.
  mlir::Value areRowsWhole;
  /// Where blocks take turns: a block's tiles are every `turns`-th one, from
  /// number `turn` on (i32; null: all). They are counted among themselves.
  mlir::Value turns, turn;

  /// Stands before the tiles `first` to `end` - 1 (i32) of some rows; gives the
  /// state.
  Values begin(const TileSide &ofBlock, mlir::Value first, mlir::Value end);
  /// The state at the next tile.
  Values advance(mlir::ValueRange state);

  /// Of a state: the number of the tile (i32), whether there is one (i1),
  /// whether all its columns exist (i1), and whether all its scores do and the
  /// mask shows them (i1).
  static mlir::Value getTile(mlir::ValueRange state) { return state[0]; }
  /// Its first column (i32).
  mlir::Value getFirstColumn(mlir::ValueRange state) {
    return getFirstOf(getTile(state));
  }
  mlir::Value isThere(mlir::ValueRange state);
  mlir::Value isWhole(mlir::ValueRange state);
  mlir::Value isVisible(mlir::ValueRange state);

private:
  mlir::Value getFirstOf(mlir::Value tile);
  mlir::Value withRows(mlir::Value condition);
  Values classify(mlir::Value base);
  /// The number of a tile among the 32 that are known with it.
  mlir::Value getPlace(mlir::Value tile);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  const KernelPlan &plan;
  TileMask &mask;
  const ScoreTile &shape;
  mlir::Value length; ///< of columns
  mlir::Value first;  ///< tile
  mlir::Value end;    ///< behind the last tile
  TileSide rows;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_TILEWALK_H
