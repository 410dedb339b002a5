//===- KeyGradientShare.h - What a warp makes of dK and dV ------*- C++ -*-===//
//
// Where no warp has all columns of its rows, P and dS of the whole tile lie in
// shared memory. Half of the warps make dV of them, the others dK: each half of
// the keys by half of the lanes. A warp with as many keys as lanes loads the
// fewest matrices for its products.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_KEYGRADIENTSHARE_H
#define SEXTANT_CODEGEN_CUDA_SM80_KEYGRADIENTSHARE_H

#include "codegen/CUDA/Sm80/BackwardTile.h"
#include "codegen/CUDA/Sm80/FragmentProducts.h"

namespace sextant::codegen {

/// The share of a warp, of tiles whose columns are shared out, too.
class KeyGradientShare {
public:
  KeyGradientShare(ThreadBuilder &thread, FragmentProducts &products,
                   const BackwardTile &tile);

  mlir::Value isOfKeys;            ///< of dK (i1), not of dV
  mlir::Value firstKey, firstLane; ///< of the warp, in the tile (i32)

  /// Adds P times gradients of outputs, or dS times queries, of the stage at
  /// an address, to the sums [block][8 lanes][element] of the warp.
  void add(mlir::Value stage, llvm::MutableArrayRef<mlir::Value> sums);

private:
  ThreadBuilder &thread;
  FragmentProducts &products;
  const BackwardTile &tile;
  mlir::Value left;  ///< what the thread names of left operands
  mlir::Value right; ///< bytes of the first lane in a stage (i32)
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_KEYGRADIENTSHARE_H
