//===- AllHeadsBackwardKernel.h - Gradients of all heads --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDKERNEL_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDKERNEL_H

#include "codegen/CUDA/Sm80/AllHeadsBackwardTile.h"
#include "codegen/CUDA/Sm80/BackwardTile.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/Rows/PayloadGradients.h"
#include <array>

namespace sextant::codegen {

/// Numbers of the operands of the launch, and the sizes that its kernel is
/// compiled for.
struct AllHeadsBackwardOperands : FragmentOperands, PayloadSums {
  AllHeadsBackwardOperands(const KernelPlan &plan,
                           const AllHeadsWeights &weights,
                           const AllHeadsBackwardTile &tile)
      : FragmentOperands(plan, pos::Side::query), weights(weights), tile(tile) {
  }

  const AllHeadsWeights &weights;
  AllHeadsBackwardTile tile;
  unsigned packed = 0;                         ///< the packed weights
  llvm::SmallVector<unsigned> outputGradients; ///< one per value
  /// By `Statistic`, [B, H, padded queries] x f32.
  std::array<unsigned, statisticsCount> statistics{};
  /// Scalars: of the tiles of keys, and of those of queries.
  unsigned chunks = 0, parts = 0;
  /// [chunks, B, H, padded queries, row] x f32, to which items add.
  unsigned queryGradient = 0;
  /// [parts times heads of a group, B, heads of keys, padded keys, row] x f32.
  unsigned keyGradient = 0;
  llvm::SmallVector<unsigned> valueGradients;
};

/// Adds the kernel of the main launch of a backward whose score is of all
/// heads. Its items are a chunk of the tiles of keys of an element of the
/// batch, with a part of the queries; a block runs one at a time:
///
///   for each tile of 16 keys of the chunk:
///     for each tile of 16 queries of the part that sees some of them:
///       each warp: S = Q K^T, dP = dO V^T of its heads, to shared memory
///       each thread: the payload at its query and key, of all heads; P;
///         the pullback of P (dP - delta), dS
///       each warp: dV += P^T dO, dK += dS^T Q, dQ += dS K of its heads
///       gradients of what the payload reads, of the tile's points
///     dK and dV of each head
void createAllHeadsFragmentBackward(const Lowering &lowering,
                                    llvm::StringRef suffix,
                                    const AllHeadsBackwardOperands &launch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDKERNEL_H
