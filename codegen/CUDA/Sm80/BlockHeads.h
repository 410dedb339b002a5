//===- BlockHeads.h - Which heads a block of a forward has ------*- C++ -*-===//
//
// Where queries are so few that a warp has room for those of a head, and heads
// share keys, each warp of a block has a head of its own: what is copied of K
// and V serves as many heads as there are warps, not one. Else a block has one
// head, whose queries its warps share out. Which it is follows from the shape
// and is known when the kernel runs; warps without a head do what the last one
// does, and store nothing. Of so few queries that those of a head leave rows of
// one product free, the rows of a warp have heads of their own in the same way.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H
#define SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H

#include "codegen/CUDA/Sm80/ForwardOperands.h"
#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "codegen/Emit/Sizes.h"

namespace sextant::codegen {

/// How many heads a block has, and how many blocks with heads of their own an
/// element of the batch (values of type index).
struct PackedHeads {
  mlir::Value perBlock, blocks;
};
PackedHeads countPackedHeads(const Lowering &lowering, const ScoreTile &tile);

/// Where rows have heads of their own: that, and 1 where a forward of few
/// queries reads no key more often so than with `tile`, else 0 (index).
struct RowHeads : PackedHeads {
  mlir::Value areFew;
};
RowHeads countRowHeads(const Lowering &lowering, const ScoreTile &tile);

/// The heads of the block of one item.
class BlockHeads {
public:
  BlockHeads(ThreadBuilder &thread, ArgumentBlock &arguments,
             const ForwardOperands &launch, const FragmentPoint &point);

  /// Blocks with heads of their own, of an element of the batch; none where
  /// the launch does not run.
  static Index countBlocks(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const ForwardOperands &launch);

  /// `block` counts those of an element of the batch.
  void enter(Index block);

  /// The head of keys, the head of the thread's team, and whether no team
  /// before has that row of it (i1).
  Index keyHead = 0, head = 0;
  mlir::Value isOwn;

  /// The head of which a warp, or a row where that may have its own, has rows
  /// (i32), and the query of such a row (i32).
  Index getHead(mlir::Value place);
  mlir::Value getQuery(mlir::Value row);

private:
  /// Which of the block's heads it is, and its number in the group, not clamped
  /// (i32).
  mlir::Value getPlace(mlir::Value place);
  mlir::Value getNumber(mlir::Value place);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  const ForwardTile &tile;
  mlir::Value isPacked;
  Index queries, group, perBlock, perGroup;
  Index first = 0; ///< head of the block, in its group
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BLOCKHEADS_H
