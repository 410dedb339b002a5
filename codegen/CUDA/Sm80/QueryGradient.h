//===- QueryGradient.h - The gradient of queries in a backward --*- C++ -*-===//
//
// A block sums up over its keys, of which each warp has some: dS goes to shared
// memory, and each warp makes some lanes of some queries of the tile. An
// element of dQ belongs to one thread of the block, which reads what earlier
// tiles of keys left and adds to it; where gradients may be summed up in any
// order, all blocks of a head add to the same sums, atomically.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_QUERYGRADIENT_H
#define SEXTANT_CODEGEN_CUDA_SM80_QUERYGRADIENT_H

#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/FragmentProducts.h"

namespace sextant::codegen {

/// The gradient of queries of the tiles that pass by a block.
class QueryGradient {
public:
  using Values = KernelBuilder::Values;

  QueryGradient(ThreadBuilder &thread, ArgumentBlock &arguments,
                FragmentProducts &products, const BackwardOperands &launch);

  void enterHead(const HeadNumbers &numbers);
  /// Stores dS of a tile, as the warps hold it.
  void store(mlir::ValueRange scoreGradients);
  /// Adds dS times the rows of keys at an address to the queries from `first`
  /// (i32) on.
  void add(mlir::Value first, mlir::Value keys);

private:
  /// Zeros, or what is there already.
  Values begin(mlir::Value to, int64_t units);
  void end(mlir::ValueRange sums, mlir::Value to);
  /// Calls `body` for each two neighbours of the thread in `units` times 16
  /// lanes of 16 queries from `to` on: the number of the first one, and where
  /// they are.
  void forPairs(mlir::Value to, int64_t units,
                llvm::function_ref<void(int64_t, mlir::Value)> body);
  /// Adds to `units` times 16 lanes of 16 queries from `unit` (i32) on.
  void addUnits(mlir::Value to, mlir::Value keys, int64_t units);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentProducts &products;
  const BackwardOperands &launch;
  const BackwardTile &tile;
  bool isInOrder;
  int64_t row;              ///< words of a row of the sums
  mlir::Value stored;       ///< where the thread's first element of dS goes
  mlir::Value left;         ///< what the thread names of left operands
  mlir::Value block, group; ///< of queries and of lanes that the warp makes
  mlir::Value head;         ///< address of the sums of a head
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_QUERYGRADIENT_H
