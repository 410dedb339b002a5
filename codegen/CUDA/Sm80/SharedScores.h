//===- SharedScores.h - Numbers of a tile in shared memory ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_SHAREDSCORES_H
#define SEXTANT_CODEGEN_CUDA_SM80_SHAREDSCORES_H

#include "codegen/CUDA/Sm80/BackwardTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Has P or dS of a tile, of which each warp holds a part, come together in
/// shared memory: a row per key, in the rows' type.
class SharedScores {
public:
  SharedScores(ThreadBuilder &thread, const BackwardTile &tile);

  /// Stores what the thread holds, so many bytes behind the start.
  void store(mlir::ValueRange numbers, int64_t bytes);

private:
  ThreadBuilder &thread;
  const BackwardTile &tile;
  mlir::Value own; ///< address of the thread's first number
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_SHAREDSCORES_H
