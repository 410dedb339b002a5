//===- PassingTiles.h - Tiles that pass by a block --------------*- C++ -*-===//
//
// Both directions go through tiles of scores alike. A block stays with the rows
// of some operands; those of the others pass by with their tables, the next
// tile's on their way to one stage of shared memory while the block computes
// with the other. Scores are made of products in the same way.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_PASSINGTILES_H
#define SEXTANT_CODEGEN_CUDA_SM80_PASSINGTILES_H

#include "codegen/CUDA/Sm80/FragmentProducts.h"
#include "codegen/CUDA/Sm80/FragmentScores.h"
#include "codegen/CUDA/Sm80/SharedRows.h"
#include "codegen/CUDA/Sm80/TileWalk.h"

namespace sextant::codegen {

/// Bytes of shared memory: the place of the first of two stages, their size,
/// and the place of windows of tables in one. Places of stages are counted from
/// the first one in units: of bytes, or of whole stages. Bytes need no product.
struct StageLayout {
  int64_t first, size, windows, unit;
};

/// A walk over tiles of scores in two stages: the common part of forward and
/// backward.
class PassingTiles {
public:
  using Values = KernelBuilder::Values;

protected:
  /// What one tile leaves for the next. What a direction adds to it comes with
  /// its own `getParts`, which gives all values to carry.
  struct Carried {
    Values walk;
    mlir::Value stage; ///< place of that of the tile at hand (i32)
    Values hinges;     ///< see FragmentHingeProduct
  };
  template <class State> static Values flatten(State carried) {
    Values all;
    for (llvm::MutableArrayRef<mlir::Value> part : carried.getParts())
      llvm::append_range(all, part);
    return all;
  }
  /// The other way round; there are as many of each part as `carried` has.
  template <class State>
  static State unflatten(mlir::ValueRange all, State carried) {
    for (llvm::MutableArrayRef<mlir::Value> part : carried.getParts()) {
      llvm::copy(all.take_front(part.size()), part.begin());
      all = all.drop_front(part.size());
    }
    return carried;
  }

  /// `lanes`: of the vectors that tables are written in.
  PassingTiles(ThreadBuilder &thread, ArgumentBlock &arguments,
               const FragmentOperands &launch, const ScoreTile &shape,
               const StageLayout &stages, int64_t lanes);

  SharedRows getRows(unsigned tensor, SharedRowShape ofRow) {
    return SharedRows(thread, arguments, tensor, ofRow, shape.countThreads());
  }
  /// The address of a place of shared memory.
  mlir::Value getShared(int64_t bytes) {
    return thread.getShared(thread.constant(bytes));
  }
  mlir::Value getStage(mlir::Value place);
  mlir::Value getFirstColumn(mlir::ValueRange walked) {
    return walk.getFirstColumn(walked);
  }

  /// Runs `tile`, which gives what it leaves, for the tiles `first` to `end` -
  /// 1 (i32) that some of the rows of the block see. Gives what the last one
  /// leaves, or `start`, whose stage is free. What `beginCopies` copies is
  /// there with the first tile, whose own copies begin before: there is more of
  /// them.
  template <class State>
  State passTiles(State start, const TileSide &rows, mlir::Value first,
                  mlir::Value end, llvm::function_ref<State(State)> tile,
                  llvm::function_ref<void()> beginCopies = {}) {
    start.walk = enter(rows, first, end, start.stage, beginCopies);
    Values last = thread.loopWhile(
        flatten(start),
        [&](mlir::ValueRange all) {
          return walk.isThere(unflatten(all, start).walk);
        },
        [&](mlir::ValueRange all) {
          return flatten(tile(unflatten(all, start)));
        });
    return unflatten(last, start);
  }
  /// Waits for the tile at hand and lets the next one begin to come; gives what
  /// is known of that. The point stands at the one at hand from here on. What
  /// `beginCopies` copies may still be on its way when the tile is there, and
  /// comes before the next one.
  Carried enterTile(const Carried &carried,
                    llvm::function_ref<void()> beginCopies = {});

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint point;
  TileMask mask;
  mlir::Value columnLength;
  TileWalk walk;
  FragmentProducts products;
  FragmentHinges hinges;
  FragmentHingeProduct hingeProduct;
  FragmentScores scores;

  /// Rows of operands and where they lie: in shared memory those that stay with
  /// the block, in a stage those that pass by.
  struct PlacedRows {
    SharedRows rows;
    int64_t bytes;
  };
  llvm::SmallVector<PlacedRows, 3> staying, passing;

private:
  Values enter(const TileSide &rows, mlir::Value first, mlir::Value end,
               mlir::Value stage, llvm::function_ref<void()> beginCopies);
  mlir::Value getWindows(mlir::Value stage) {
    return thread.advance(stage, stages.windows);
  }
  void copyTile(mlir::ValueRange walked, mlir::Value place);
  void copyRows(mlir::Value first, mlir::Value stage, bool areWhole);

  const ScoreTile &shape;
  StageLayout stages;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_PASSINGTILES_H
