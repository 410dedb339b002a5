//===- JoinSplits.h - A forward whose keys are split ------------*- C++ -*-===//
//
// Where queries are few, as when a text is decoded, there are too few items for
// a GPU: then several items share the keys of a head. Each keeps the output of
// its keys and the two numbers of its softmax, and a second launch joins them.
// How many share a head follows from the shape (C9). With one there is nothing
// to join, no memory and no work item.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_JOINSPLITS_H
#define SEXTANT_CODEGEN_ROWS_JOINSPLITS_H

#include "codegen/Rows/AttentionLaunch.h"

namespace sextant::codegen {

/// What items leave of a forward whose keys are split, f32. There are `count`
/// splits (index); the tensors are empty where that is 1.
struct SplitTensors {
  mlir::Value count;
  mlir::Value softmax; ///< [splits, B, H, 2, L]: shift and sum, in base 2
  llvm::SmallVector<mlir::Value>
      outputs; ///< [splits, B, H, L, dim], not scaled
};

/// Which tiles a forward has, as far as splits follow from that.
struct SplitShape {
  mlir::Value heads;     ///< blocks of heads that have items of their own
  int64_t queries, keys; ///< of an item, of a tile
  /// That fill a GPU: as many as its multiprocessors run at a time, or more.
  int64_t enoughItems;
  /// How often items should fill it where there are more: what is left over
  /// keeps a few multiprocessors busy, which take memory slower than all do.
  int64_t turns = 1;
};

/// How many splits a `pos.attention` should have (index).
mlir::Value countSplits(const Lowering &lowering, const SplitShape &shape);

/// Allocates the tensors of so many.
SplitTensors allocateSplits(const Lowering &lowering, mlir::Value count);

/// Launches what makes the results of those of the splits; `results` are
/// tensors in the order of `ForwardResults`.
void launchJoin(const Lowering &lowering, const HoistTables &tables,
                const SplitTensors &splits, mlir::ValueRange results,
                llvm::StringRef suffix);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_JOINSPLITS_H
