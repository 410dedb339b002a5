//===- BackwardTile.h - Tiles of a backward on tensor cores -----*- C++ -*-===//
//
// Rows are keys, columns queries. Where things lie in shared memory:
//
//   keys, values                  rows of K and V, for all tiles of queries
//   dS                            of the tile, a row per key, in bf16
//   stage 0:  queries, gradients of outputs, statistics, windows of tables
//   stage 1:  the same, for the tile that comes next
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BACKWARDTILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_BACKWARDTILE_H

#include "codegen/CUDA/Sm80/ScoreTile.h"

namespace sextant::codegen {

/// What the backward knows of each query: see RowStatistics.
enum class Statistic : int64_t { NegativeShift, InverseSum, NegativeDelta };
inline constexpr int64_t statisticsCount = 3;

struct BackwardTile : ScoreTile {
  /// `offsetWindows` tables over offsets and `queryWindows` vectors over
  /// queries of words of 32 bits are read with each tile.
  BackwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims,
               int64_t offsetWindows, int64_t queryWindows);

  SharedRowShape head;
  llvm::SmallVector<SharedRowShape, 2> values;
  /// Whether dV takes a pass over the queries of its own: both sums do not fit
  /// into the registers of a thread.
  bool isSplit = false;

  /// Of dS.
  SharedRowShape getScoreShape() const { return columns; }

  // Bytes, from the start of shared memory or of a stage.
  int64_t getValues(unsigned number) const {
    return getRowBytes(countRows(), number);
  }
  int64_t getScoreGradients() const { return getValues(values.size()); }
  int64_t getStage() const {
    return llvm::alignTo(
        getScoreGradients() + countRows() * getScoreShape().getBytes(), 128);
  }
  int64_t getOutputGradients(unsigned number) const {
    return getRowBytes(columns, number);
  }
  int64_t getStatistics() const { return getOutputGradients(values.size()); }
  int64_t getWindows() const {
    return getStatistics() + 4 * statisticsCount * columns;
  }
  int64_t getStageBytes() const {
    return llvm::alignTo(getWindows() + getWindowBytes(), 128);
  }

  BlockShape getBlock() const {
    return {warps, getStage() + 2 * getStageBytes()};
  }

private:
  /// Of so many rows of a head and of the values before `number`.
  int64_t getRowBytes(int64_t rows, unsigned number) const;
  /// f32 of a thread that last while it computes a tile.
  int64_t countSums() const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BACKWARDTILE_H
