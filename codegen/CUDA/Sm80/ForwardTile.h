//===- ForwardTile.h - Tiles of a forward on tensor cores -------*- C++ -*-===//
//
// How large the tiles of a block are, and where they lie in shared memory:
//
//   queries                       rows of Q
//   stage 0:  keys, values, windows of tables
//   stage 1:  the same, for the tile that comes next
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H

#include "codegen/CUDA/Sm80/ScoreTile.h"

namespace sextant::codegen {

/// How many queries a forward has: `Few` are at most the rows of a warp's
/// products. Then keys are read once, and nothing is computed of them twice:
/// each warp of a block has all of the queries and keys of its own, so that
/// many of them wait for memory at a time, and the block joins what they find.
enum class QueryCount { Many, Few };

/// A tile of a forward: its sizes, and where its parts lie in shared memory.
struct ForwardTile : ScoreTile {
  /// Of rows of such shapes, without sizes of its own.
  ForwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims);
  /// `offsetWindows` tables over offsets and `keyWindows` vectors over keys of
  /// words of 32 bits are read with each tile. A block has at most
  /// `sharedBytes` of shared memory.
  ForwardTile(QueryCount count, int64_t headDim,
              llvm::ArrayRef<int64_t> valueDims, int64_t offsetWindows,
              int64_t keyWindows, int64_t sharedBytes);

  /// Whether there are sizes that a thread's registers and shared memory are
  /// enough for; else the others mean nothing.
  bool exists() const { return warps > 0; }

  SharedRowShape query;
  llvm::SmallVector<SharedRowShape, 2> values;
  int64_t residentBlocks = 0; ///< see BlockShape
  /// Of a block, each with keys of its own; a tile is one of a part.
  int64_t parts = 1;

  /// Asks for three blocks on a multiprocessor, of which a block may have
  /// `sharedBytes` of shared memory, where these have room. For a kernel that
  /// may need few registers (ResidentBlocks.h).
  void fitThreeBlocks(int64_t sharedBytes);

  // Bytes, from the start of shared memory or of a stage.
  int64_t getStage() const {
    return llvm::alignTo(countRows() * query.getBytes(), 128);
  }
  int64_t getValues(unsigned number) const;
  int64_t getWindows() const { return getValues(values.size()); }
  int64_t getStageBytes() const {
    return llvm::alignTo(getWindows() + getWindowBytes(), 128);
  }

  BlockShape getBlock() const {
    return {parts * warps, parts * (getStage() + 2 * getStageBytes()),
            residentBlocks, parts};
  }

private:
  void fillSharedMemory(int64_t sharedBytes);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FORWARDTILE_H
