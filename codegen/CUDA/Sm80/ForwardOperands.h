//===- ForwardOperands.h - Operands of a forward on tensor cores *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H

#include "codegen/CUDA/Sm80/ForwardTile.h"
#include "codegen/Rows/AttentionLaunch.h"

namespace sextant::codegen {

/// Hoisted values that are read with each tile of scores from shared memory:
/// those over offsets or keys, of 32 bits, that the score or the mask uses.
struct TileWindows {
  explicit TileWindows(const KernelPlan &plan);

  llvm::SmallVector<const Hoisted *> offsets, keys;
};

/// Whether the score or the mask uses a hoisted value.
bool isUsedByScores(const KernelPlan &plan, const Hoisted &hoisted);

/// Whether these use values over offsets of given positions, which are in
/// tables only where those hold all offsets in use
/// (codegen/Tables/OffsetRange.h).
bool usesOffsetsOfPositions(const KernelPlan &plan);

/// Numbers of the operands of the launch, and the sizes that its kernel is
/// compiled for.
struct ForwardOperands {
  ForwardOperands(const KernelPlan &plan, int64_t headDim,
                  llvm::ArrayRef<int64_t> valueDims)
      : plan(plan), windows(plan),
        tile(headDim, valueDims, windows.offsets.size(), windows.keys.size()) {}

  const KernelPlan &plan;
  TileWindows windows;
  ForwardTile tile;

  KernelOperands layout;
  SiteOperands sites;
  /// Rows as products read them.
  unsigned query = 0, key = 0;
  llvm::SmallVector<unsigned> values;
  ForwardResults results;
  /// Of a forward whose keys are split (JoinSplits.h): how many splits there
  /// are (a scalar), and what each leaves.
  unsigned splits = 0, splitSoftmax = 0;
  llvm::SmallVector<unsigned> splitOutputs;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FORWARDOPERANDS_H
