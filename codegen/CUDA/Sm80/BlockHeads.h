//===- BlockHeads.h - Which heads a block of a forward has ------*- C++ -*-===//
//
// Where queries are so few that a warp has room for those of a head, and heads
// share keys, each warp of a block has a head of its own: what is copied of K
// and V serves as many heads as there are warps, not one. Else a block has one
// head, whose queries its warps share out. Which it is follows from the shape
// and is known when the kernel runs; warps without a head do what the last one
// does, and store nothing.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H
#define SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H

#include "codegen/CUDA/Sm80/ForwardOperands.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Emit/Sizes.h"

namespace sextant::codegen {

/// How many heads a block has, and how many blocks with heads of their own an
/// element of the batch (values of type index).
struct PackedHeads {
  mlir::Value perBlock, blocks;
};
PackedHeads countPackedHeads(const Lowering &lowering, const ScoreTile &tile);

/// The heads of the block of one item.
class BlockHeads {
public:
  BlockHeads(ThreadBuilder &thread, ArgumentBlock &arguments,
             const ForwardOperands &launch, mlir::Value isPacked);

  /// Blocks with heads of their own, of an element of the batch.
  static Index countBlocks(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const ForwardOperands &launch);

  /// `block` counts those of an element of the batch.
  void enter(Index block);

  /// The head of keys, the head of the thread's warp, and whether no warp
  /// before has it (i1).
  Index keyHead = 0, head = 0;
  mlir::Value isOwn;

  /// The head of which a warp (i32) has rows.
  Index getHead(mlir::Value warp);

private:
  /// The number in the group of a warp's head, not clamped (i32).
  mlir::Value getNumber(mlir::Value warp);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  mlir::Value isPacked;
  Index group, perBlock, perGroup;
  Index first = 0; ///< head of the block, in its group
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H
