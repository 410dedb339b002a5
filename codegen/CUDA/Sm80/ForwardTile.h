//===- ForwardTile.h - Tiles of a forward on tensor cores -------*- C++ -*-===//
//
// How large the tiles of a block are, and where they lie in shared memory:
//
//   queries                       rows of Q
//   stage 0:  keys, values, windows of tables
//   stage 1:  the same, for the tile that comes next
//
// A row takes 16 bytes more than it has elements: then eight rows of a matrix
// lie in different banks, and the address of each is that of a thread plus a
// constant, which costs no instruction.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H

#include "codegen/CUDA/ThreadFunctions.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

namespace sextant::codegen {

/// Rows, columns and depth of a product of matrices of a warp.
inline constexpr int64_t fragmentRows = 16, fragmentColumns = 8,
                         fragmentDepth = 16;
/// f32 of such a product that a thread holds.
inline constexpr int64_t fragmentElements = 4;

/// Rows of one operand in shared memory.
struct SharedRowShape {
  int64_t dim = 0; ///< of the operand; what follows up to `padded` is zero
  int64_t padded = 0;

  SharedRowShape(int64_t dim)
      : dim(dim), padded(llvm::alignTo(dim, fragmentDepth)) {}
  int64_t getBytes() const { return 2 * padded + 16; }
};

/// The largest sum of value dims, and the largest head dim: what fits into the
/// registers of a thread, and into shared memory.
inline constexpr int64_t mostTileDims = 256;

struct ForwardTile {
  /// `offsetWindows` tables over offsets and `keyWindows` vectors over keys of
  /// words of 32 bits are read with each tile.
  ForwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims,
              int64_t offsetWindows, int64_t keyWindows);

  int64_t warps = 0;  ///< of a block
  int64_t blocks = 0; ///< of 16 queries, of a warp
  int64_t keys = 0;   ///< of a tile
  SharedRowShape query;
  llvm::SmallVector<SharedRowShape, 2> values;
  int64_t offsetWindows, keyWindows;

  int64_t countWarpQueries() const { return blocks * fragmentRows; }
  int64_t countQueries() const { return warps * countWarpQueries(); }
  /// Rows of queries that a thread has elements of: two of each block.
  int64_t countThreadRows() const { return 2 * blocks; }
  /// Scores of a tile of keys that a thread holds.
  int64_t countThreadScores() const {
    return countQueries() * keys / getBlock().countThreads();
  }

  // Bytes, from the start of shared memory or of a stage.
  int64_t getStage() const {
    return llvm::alignTo(countQueries() * query.getBytes(), 128);
  }
  int64_t getValues(unsigned number) const;
  int64_t countOffsetEntries() const { return countQueries() + keys; }
  int64_t getOffsetWindow(int64_t number) const {
    return getValues(values.size()) + 4 * number * countOffsetEntries();
  }
  int64_t getKeyWindow(int64_t number) const {
    return getOffsetWindow(offsetWindows) + 4 * number * keys;
  }
  int64_t getStageBytes() const {
    return llvm::alignTo(getKeyWindow(keyWindows), 128);
  }

  BlockShape getBlock() const {
    return {warps, getStage() + 2 * getStageBytes()};
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H
