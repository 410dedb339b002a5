//===- ForwardOperands.h - Operands of a forward on tensor cores *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H

#include "codegen/CUDA/Sm80/ForwardTile.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/Rows/AttentionLaunch.h"

namespace sextant::codegen {

/// Numbers of the operands of the launch, and the sizes that its kernel is
/// compiled for.
struct ForwardOperands : FragmentOperands {
  /// `sharedBytes`: of shared memory that a block may have.
  ForwardOperands(const KernelPlan &plan, int64_t headDim,
                  llvm::ArrayRef<int64_t> valueDims, int64_t sharedBytes)
      : FragmentOperands(plan, pos::Side::key),
        tile(makeTile(QueryCount::Many, headDim, valueDims, sharedBytes)) {}

  ForwardOperands(const KernelPlan &plan, const ForwardTile &tile)
      : FragmentOperands(plan, pos::Side::key), tile(tile) {}

  ForwardTile makeTile(QueryCount count, int64_t headDim,
                       llvm::ArrayRef<int64_t> valueDims,
                       int64_t sharedBytes) const {
    return ForwardTile(count, headDim, valueDims, windows.offsets.size(),
                       windows.columns.size(), sharedBytes);
  }

  ForwardTile tile;
  /// A scalar that is 0 where another launch has the queries, else 1; none:
  /// there is no other.
  std::optional<unsigned> runs;
  ForwardResults results;
  /// Of a forward whose keys are split (JoinSplits.h): how many splits there
  /// are (a scalar), and what each leaves.
  unsigned splits = 0, splitSoftmax = 0;
  llvm::SmallVector<unsigned> splitOutputs;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H
