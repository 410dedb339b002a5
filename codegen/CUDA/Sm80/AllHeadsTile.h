//===- AllHeadsTile.h - A tile of the scores of all heads -------*- C++ -*-===//
//
// A tile has 16 queries and 16 keys, of all heads. Each warp of a block
// multiplies rows of one head after the other, 8 heads apart; each thread has
// one query and one key, of all heads. In between scores lie in shared memory,
// [head][query][key] of f32.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTILE_H

#include "codegen/CUDA/Sm80/ForwardTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// What both directions have in common.
struct AllHeadsTile {
  AllHeadsTile(int64_t heads, int64_t headDim,
               llvm::ArrayRef<int64_t> valueDims);

  int64_t heads;
  ForwardTile ofHead; ///< of a warp, which has all queries and keys

  /// Heads that a warp has, at most.
  int64_t countRounds() const { return llvm::divideCeil(heads, ofHead.warps); }
  // Bytes of 16 rows of a head, and of its scores.
  int64_t getRowBytes(const SharedRowShape &shape) const {
    return fragmentRows * shape.getBytes();
  }
  int64_t getScoreBytes() const {
    return wordBytes * fragmentRows * ofHead.columns;
  }
  /// Of rows like those of queries and of the first values, of all heads.
  int64_t countRowBytes(unsigned values) const;
};

/// A head that a warp has.
struct WarpHead {
  mlir::Value exists; ///< i1; null: it does
  mlir::Value number; ///< i32
  mlir::Value ofKeys; ///< the head of keys that it meets (i32)

  /// Runs `body` where there is one.
  void where(KernelBuilder &kernel, llvm::function_ref<void()> body) const;
  /// What `body` makes of numbers where there is one, else these.
  KernelBuilder::Values
  choose(KernelBuilder &kernel, const KernelBuilder::Values &before,
         llvm::function_ref<KernelBuilder::Values()> body) const;
};

/// Those of the thread's warp, one per round.
llvm::SmallVector<WarpHead> findHeadsOfWarp(ThreadBuilder &thread,
                                            ArgumentBlock &arguments,
                                            const SiteOperands &sites,
                                            const AllHeadsTile &tile);

/// The scores of one head as products of its warp have them, in shared memory.
class HeadScores {
public:
  using Values = KernelBuilder::Values;

  HeadScores(ThreadBuilder &thread, const AllHeadsTile &tile);

  /// Stores what the thread holds, `first` bytes behind the start for head 0.
  void store(mlir::ValueRange numbers, int64_t first, mlir::Value head);
  Values load(int64_t first, mlir::Value head);

private:
  /// Calls `body` for two neighbours, by the number of the first one.
  void forPairs(int64_t first, mlir::Value head,
                llvm::function_ref<void(unsigned, mlir::Value address)> body);

  ThreadBuilder &thread;
  const AllHeadsTile &tile;
  mlir::Value own; ///< bytes of the thread's first one (i32)
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTILE_H
