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
  /// Begins to copy what there is of the queries from `first` (i32) on, where
  /// the tile keeps it.
  void copy(mlir::Value first);
  /// Adds dS of the tile, which shared memory holds, times the rows of keys at
  /// an address to the queries from `first` (i32) on.
  void add(mlir::Value first, mlir::Value keys);

private:
  /// Zeros, or what is there already; in shared memory from `kept` on, if any.
  Values begin(mlir::Value to, mlir::Value kept, int64_t units);
  void end(mlir::ValueRange sums, mlir::Value to);
  /// Calls `body` for each two neighbours of the thread in `units` times 16
  /// lanes of its blocks: the number of the first one, and where they are.
  void forPairs(
      int64_t units,
      llvm::function_ref<void(int64_t number, int64_t row, int64_t lane)> body);
  /// Adds to `units` times 16 lanes of the warp's queries from `to` on.
  void addUnits(mlir::Value to, mlir::Value kept, mlir::Value keys,
                int64_t units);

  /// What a warp makes of the dQ of a tile: so many blocks of 16 queries, and
  /// of their lanes one of several groups, so many units of 16.
  struct Share {
    explicit Share(const BackwardTile &tile);

    int64_t blocks = 0, groups = 0, units = 0;
  };

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentProducts &products;
  const BackwardOperands &launch;
  const BackwardTile &tile;
  Share share;
  bool isInOrder;
  int64_t row;              ///< words of a row of the sums
  mlir::Value left;         ///< what the thread names of left operands
  mlir::Value block, group; ///< of queries and of lanes that the warp makes
  mlir::Value head;         ///< address of the sums of a head
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_QUERYGRADIENT_H
