//===- BackwardTile.h - Tiles of a backward on tensor cores -----*- C++ -*-===//
//
// Rows are keys, columns queries. Where things lie in shared memory:
//
//   keys, values                  rows of K and V, for all tiles of queries
//   dS                            of the tile, a row per key, in the rows' type
//   P                             likewise, where warps share columns out
//   dQ                            what earlier tiles of keys have left, if kept
//   sums                          of gradients of the payload: FragmentSums.h
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

/// Words of 32 bits of a block, and registers of a thread, for the gradients of
/// what a payload reads.
struct SumWords {
  /// Of this many tables over offsets a warp keeps 8 numbers per diagonal of
  /// its rows: those of the 8 x 8 matrices that it has are added up where they
  /// have the same offsets. What is in no matrix stays zero.
  int64_t diagonals = 0;
  static constexpr int64_t diagonalWords = fragmentColumns;
  /// Numbers per score that a thread keeps beside P and dP.
  int64_t numbers = 0;
  /// Of each warp a number per column, and one in all.
  int64_t columns = 0, scalars = 0;
  /// Whether a warp keeps the numbers of eight columns, and a word of each
  /// column: PositionSums.h. Rows lie so far apart that eight of them load four
  /// words each from all banks.
  bool hasGroups = false;
  static constexpr int64_t groupRowWords = fragmentColumns + 4;

  /// From that of the first row and the column behind the last one on.
  static int64_t countDiagonals(const ScoreTile &tile) {
    return tile.countWarpColumns() + tile.countWarpRows();
  }
  int64_t getDiagonals(const ScoreTile &tile, int64_t number) const {
    return number * tile.warps * countDiagonals(tile) * diagonalWords;
  }
  int64_t getColumns(const ScoreTile &tile, int64_t number) const {
    return getDiagonals(tile, diagonals) +
           number * tile.warps * tile.countWarpColumns();
  }
  /// Of each warp where sums over offsets and over queries begin: a number of
  /// 64 bits per sum.
  static constexpr int64_t placeWords = 2;
  int64_t getPlaces(const ScoreTile &tile, int64_t number) const {
    return getColumns(tile, columns) + number * tile.warps * placeWords;
  }
  int64_t getScalars(const ScoreTile &tile, int64_t number) const {
    return getPlaces(tile, diagonals + columns) + number * tile.warps;
  }
  static int64_t countGroupWords(const ScoreTile &tile) {
    return (tile.countWarpRows() + 1) * groupRowWords;
  }
  int64_t getGroups(const ScoreTile &tile) const {
    return llvm::alignTo(getScalars(tile, scalars), 4);
  }
  int64_t count(const ScoreTile &tile) const {
    return hasGroups ? getGroups(tile) + tile.warps * countGroupWords(tile)
                     : getScalars(tile, scalars);
  }
};

/// A tile of a backward: its sizes, and where its parts lie in shared memory.
struct BackwardTile : ScoreTile {
  /// `offsetWindows` tables over offsets and `queryWindows` vectors over
  /// queries of words of 32 bits are read with each tile. A block has at most
  /// `sharedBytes` of shared memory. `readsQuerySums`: the kernel adds to what
  /// is there of dQ.
  BackwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims,
               int64_t offsetWindows, int64_t queryWindows,
               const SumWords &sums, int64_t sharedBytes, bool readsQuerySums);

  /// Whether there are sizes for which shared memory is enough; else the others
  /// mean nothing.
  bool exists() const { return warps > 0; }

  SharedRowShape head;
  llvm::SmallVector<SharedRowShape, 2> values;
  /// Whether dV takes a pass over the queries of its own: both sums do not fit
  /// into the registers of a thread.
  bool isSplit = false;
  /// Whether what is there of dQ comes to shared memory while the block makes
  /// dS, in place of a load that nothing hides.
  bool keepsQuerySums = false;
  SumWords sums;

  /// Whether warps share columns out, too. Then P and dS come together in
  /// shared memory, and half of the warps make dV of them, the others dK. Each
  /// has as many keys as lanes, one of `gradientParts` of both.
  bool sharesGradients() const { return columnParts > 1; }
  static constexpr int64_t gradientParts = 2;
  /// Of 16 keys, and lanes of a row, of which a warp sums up dK or dV.
  int64_t countGradientBlocks() const {
    return sharesGradients() ? countRows() / gradientParts / fragmentRows
                             : blocks;
  }
  int64_t countGradientLanes(const SharedRowShape &shape) const {
    return sharesGradients() ? shape.padded / gradientParts : shape.padded;
  }

  /// Of P and dS.
  SharedRowShape getScoreShape() const { return columns; }

  // Bytes, from the start of shared memory or of a stage.
  int64_t getValues(unsigned number) const {
    return getRowBytes(countRows(), number);
  }
  int64_t getScoreGradients() const { return getValues(values.size()); }
  int64_t getProbabilities() const {
    return getScoreGradients() + countRows() * getScoreShape().getBytes();
  }
  int64_t getQuerySums() const {
    return getProbabilities() +
           (sharesGradients() ? countRows() * getScoreShape().getBytes() : 0);
  }
  /// Of a row of dQ in f32. Four rows of which a thread reads two neighbours
  /// lie in different banks.
  int64_t getQuerySumBytes() const {
    return wordBytes * (llvm::alignTo(head.padded, 32) + 8);
  }
  int64_t getSums() const {
    return getQuerySums() + (keepsQuerySums ? columns * getQuerySumBytes() : 0);
  }
  int64_t getStage() const {
    return llvm::alignTo(getSums() + 4 * sums.count(*this), 128);
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
  int64_t countRegisters() const;
  /// Whether dK and dV are alike, as warps that share them out need them.
  bool hasEqualGradients() const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BACKWARDTILE_H
