//===- BackwardOperands.h - Operands of a backward --------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BACKWARDOPERANDS_H
#define SEXTANT_CODEGEN_CUDA_SM80_BACKWARDOPERANDS_H

#include "codegen/CUDA/Sm80/BackwardTile.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/Rows/Delta.h"
#include "codegen/Rows/PayloadGradients.h"
#include <array>

namespace sextant::codegen {

/// Gradients of rows that an item sums up itself.
struct GradientRows {
  unsigned tensor = 0;
  /// Whether the tensor is [1, B, H, L, row] x f32, for row maps to be pulled
  /// back; else it is the gradient.
  bool isPartial = false;
};

/// The hoisted values of the score whose gradients are wanted, by form.
struct SumSinks {
  explicit SumSinks(const KernelPlan &plan);

  llvm::SmallVector<const Hoisted *> offsets, queries, keys, scalars;
  /// Over offsets of given positions: PositionSums.h.
  llvm::SmallVector<const Hoisted *> ofPositions;
  /// `isHingeProduct`: cotangents are made of those of scores where they are
  /// summed up.
  SumWords getWords(const KernelPlan &plan, bool isHingeProduct) const;
};

/// Whether gradients may be summed up in any order.
inline bool isSumUnordered(pos::SitesOwnerInterface backward) {
  return llvm::cast<pos::AttentionBackwardOp>(backward.getOperation())
      .getUnordered();
}

/// Adds them to the operands of a launch; gives their numbers, by `Statistic`.
inline std::array<unsigned, statisticsCount>
readStatistics(LaunchOperands &operands, const RowStatistics &statistics) {
  return {operands.read(statistics.negativeShift),
          operands.read(statistics.inverseSum),
          operands.read(statistics.negativeDelta)};
}

/// A head of queries, as numbers of what this lowering has made contiguous
/// tensors for. An address is found by one of them: numbers of the chunk, the
/// batch and the head with a stride each would take registers while tiles pass.
struct HeadNumbers {
  Index ofHeads = 0;  ///< [B, H]
  Index ofChunks = 0; ///< [chunks, B, H]
  /// [chunks times warps, B, H], of the thread's warp.
  Index ofWarps = 0;
};

/// Numbers of the operands of the launch, and the sizes that its kernel is
/// compiled for.
struct BackwardOperands : FragmentOperands, PayloadSums {
  /// `sharedBytes`: of shared memory that a block may have.
  BackwardOperands(const KernelPlan &plan, int64_t headDim,
                   llvm::ArrayRef<int64_t> valueDims, int64_t sharedBytes)
      : FragmentOperands(plan, pos::Side::query), sinks(plan),
        isUnordered(isSumUnordered(plan.owner)),
        tile(headDim, valueDims, windows.offsets.size(), windows.columns.size(),
             sinks.getWords(plan, hingeProduct.has_value()), sharedBytes,
             /*readsQuerySums=*/!isUnordered) {}

  /// The number of the partial sums of a value's gradient.
  unsigned getSums(const Hoisted &hoisted) const {
    return *tableGradients[&hoisted - plan.hoisted.data()];
  }

  SumSinks sinks;
  /// Whether gradients may be summed up in any order.
  bool isUnordered;
  BackwardTile tile;
  llvm::SmallVector<unsigned> outputGradients; ///< one per value
  /// By `Statistic`, [B, H, padded queries] x f32.
  std::array<unsigned, statisticsCount> statistics{};
  unsigned chunks = 0; ///< a scalar
  /// [chunks, B, H, padded queries, row] x f32, of which a chunk sees some; if
  /// in any order [1, B, H, ...], to which all chunks add.
  unsigned queryGradient = 0;
  GradientRows keyGradient;
  llvm::SmallVector<GradientRows> valueGradients;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BACKWARDOPERANDS_H
