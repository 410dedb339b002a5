//===- WarpPart.h - The part of a tile that a warp has ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_WARPPART_H
#define SEXTANT_CODEGEN_CUDA_SM80_WARPPART_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Where a warp stands among those that share a tile: its number among those
/// that share the rows, and among those that share the columns of some rows
/// (i32). Warps of the same columns have neighbouring numbers.
struct WarpPart {
  mlir::Value ofRows, ofColumns;

  static WarpPart get(ThreadBuilder &thread, const ScoreTile &tile,
                      mlir::Value warp) {
    if (tile.columnParts == 1)
      return {warp, thread.constant(0)};
    return {thread.rem(warp, tile.countRowWarps()),
            thread.div(warp, tile.countRowWarps())};
  }

  /// The first ones in the tile (i32).
  mlir::Value getRow(ThreadBuilder &thread, const ScoreTile &tile) const {
    return thread.mul(ofRows, tile.countWarpRows());
  }
  mlir::Value getColumn(ThreadBuilder &thread, const ScoreTile &tile) const {
    return thread.mul(ofColumns, tile.countWarpColumns());
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_WARPPART_H
