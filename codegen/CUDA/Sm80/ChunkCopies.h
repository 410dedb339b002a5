//===- ChunkCopies.h - Small things that come with each tile ----*- C++ -*-===//
//
// Parts of tables over offsets and statistics of rows are few words, which lie
// in memory at multiples of 16 bytes. Each thread copies one such chunk of
// whatever it is, with addresses that are known before the tiles pass by: so
// all of these parts together cost a tile one copy of a thread, and one branch.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_CHUNKCOPIES_H
#define SEXTANT_CODEGEN_CUDA_SM80_CHUNKCOPIES_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Words of 32 bits that a tile reads.
struct ChunkPart {
  mlir::Value from; ///< address of those of column 0
  bool isBackward;  ///< later columns have earlier words
  int64_t to;       ///< bytes from where a tile's begin
  int64_t words;
  int64_t teamWords = 0; ///< of one team, where each has parts of its own
};

/// Copies the parts of a tile to shared memory.
class ChunkCopies {
public:
  /// `isPacked` (i1, null: never): teams have parts of their own, one behind
  /// the other in shared memory.
  ChunkCopies(ThreadBuilder &thread, const ScoreTile &tile,
              mlir::Value isPacked)
      : thread(thread), tile(tile), isPacked(isPacked) {}

  /// Before tiles pass by; parts that are backward come last.
  void enter(llvm::ArrayRef<ChunkPart> parts);
  /// Begins to copy what the tile at `firstColumn` (i32) reads to `to`.
  void copy(mlir::Value firstColumn, mlir::Value to);

private:
  /// Of a thread.
  struct Chunk {
    mlir::Value exists;
    mlir::Value from;
    mlir::Value to; ///< bytes (i32)
    /// Whether later columns have later words; null where no part has these, or
    /// no part others.
    mlir::Value isForward, isBackward;
  };
  Chunk getChunk(llvm::ArrayRef<ChunkPart> parts, int64_t pass);
  mlir::Value choose(int64_t packed, int64_t other);

  ThreadBuilder &thread;
  const ScoreTile &tile;
  mlir::Value isPacked;
  llvm::SmallVector<Chunk, 1> chunks;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_CHUNKCOPIES_H
