//===- AllHeadsForwardKernel.h - Scores of all heads at once ----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSFORWARDKERNEL_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSFORWARDKERNEL_H

#include "codegen/CUDA/Sm80/AllHeadsTile.h"
#include "codegen/CUDA/Sm80/ForwardOperands.h"
#include "codegen/Tables/AllHeadsWeights.h"

namespace sextant::codegen {

/// Where parts of a forward lie in shared memory:
///
///   queries   rows of Q of all heads
///   scores
///   keys, values
struct AllHeadsForwardTile : AllHeadsTile {
  using AllHeadsTile::AllHeadsTile;

  /// Registers of a thread that stay with it while tiles pass.
  int64_t countSums() const;

  int64_t getScores() const { return countRowBytes(0); }
  int64_t getKeys() const { return getScores() + heads * getScoreBytes(); }
  int64_t getValues(unsigned number) const {
    return getKeys() + countRowBytes(number);
  }
  BlockShape getBlock() const {
    return {ofHead.warps, getValues(ofHead.values.size())};
  }
};

/// Numbers of the operands of the launch, and the sizes that its kernel is
/// compiled for.
struct AllHeadsForwardOperands : ForwardOperands {
  AllHeadsForwardOperands(const KernelPlan &plan,
                          const AllHeadsWeights &weights,
                          const AllHeadsForwardTile &tile)
      : ForwardOperands(plan, tile.ofHead), weights(weights), ofAllHeads(tile) {
  }

  const AllHeadsWeights &weights;
  AllHeadsForwardTile ofAllHeads;
  unsigned packed = 0; ///< the packed weights
};

/// Adds the kernel of the main launch of a forward whose score is of all heads.
/// Its items are 16 queries of all heads of an element of the batch, with a
/// split of the keys; a block runs one at a time:
///
///   for each tile of 16 keys that some query sees:
///     each warp: S = Q K^T of its heads, to shared memory
///     each thread: the payload at its query and key, of all heads
///     each warp: mask; P = exp2(S - max); O = O * exp2(max before - max) + P V
///   O / sum, log-sum-exp
///
/// Keys of the next tile come beside the payload, values beside all that is in
/// front of their own product.
void createAllHeadsFragmentForward(const Lowering &lowering,
                                   llvm::StringRef suffix,
                                   const AllHeadsForwardOperands &launch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSFORWARDKERNEL_H
