//===- PositionSums.h - Sums over offsets of given positions ----*- C++ -*-===//
//
// Under given positions scores of one offset lie anywhere in a tile. Each warp
// has sums of its own, to which its lanes add the cotangents of one column
// after the other. A lane has a row of the warp: of a column no two rows have
// the same offset unless they have the same position, and where some do lanes
// take turns. An addition is an atomic that gives nothing back, and between
// two columns the warp waits for its lanes, so that each sum has one order.
//
// Where tables do not hold the offsets in use (OffsetRange.h), values are
// pulled back where they are computed, to sums of the parameters that they are
// made of: lanes take turns at elements of these, and sum up what is of a head.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_POSITIONSUMS_H
#define SEXTANT_CODEGEN_CUDA_SM80_POSITIONSUMS_H

#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "codegen/CUDA/Sm80/ScorePoint.h"
#include "codegen/CUDA/Sm80/WarpPart.h"

namespace sextant::codegen {

/// Sums of the cotangents of values over offsets of given positions.
class PositionSums {
public:
  using Values = KernelBuilder::Values;

  /// `start`: the first block of the function.
  PositionSums(ThreadBuilder &thread, ArgumentBlock &arguments,
               FragmentPoint &point, const BackwardOperands &launch,
               mlir::Block &start);

  /// Whose cotangents are summed up, in the order of `addTile`.
  llvm::ArrayRef<const Hoisted *> getSinks() const {
    return launch.sinks.ofPositions;
  }

  /// Stands at an item, and clears those of its sums that are not zero yet.
  void enterItem(Index batch, Index keyHead, Index chunk);
  /// Stands at a head and at the keys from `firstKey` on (i32).
  void enterHead(const HeadNumbers &numbers, Index head, mlir::Value firstKey);
  /// Adds the cotangents of all sinks at the elements of the tile where the
  /// point stands.
  void addTile(mlir::ValueRange cotangents);

private:
  /// What an item does with its cotangents.
  enum class Way : int64_t { InPlace, AtOnce, InTurns };
  mlir::Value isWay(Way wanted);
  mlir::Value findWay(mlir::Value exists);
  mlir::Value getWord(mlir::Value own, int64_t word);
  void storeGroup(mlir::ValueRange cotangents, int64_t group);
  mlir::Value getSum(mlir::Value sums, mlir::Value ofColumn);
  void addAtOnce(mlir::Value sums);
  void addInTurns(mlir::Value sums);
  void addInPlace(const Hoisted *hoisted, mlir::ValueRange cotangents);
  void pullBack(const Hoisted *hoisted, mlir::Value cotangent);
  void addToParam(mlir::BlockArgument param, mlir::ValueRange indices,
                  mlir::Value cotangent);
  bool isOfHead(mlir::Value index);
  void addOfLanes(mlir::Value addend, mlir::Value to);
  void forEach(int64_t count, llvm::function_ref<void(Index)> body);
  /// Runs `body` in one lane after the other.
  void inTurns(int64_t lanes, llvm::function_ref<void()> body);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  ScorePoint scorePoint;
  const BackwardOperands &launch;
  const BackwardTile &tile;
  mlir::Block &start;
  mlir::Value firstRow; ///< of the warp, in a tile of keys (i32)
  // Where the emitted code stands.
  Index batch = 0, keyHead = 0, part = 0; ///< `part`: of [chunks, warps]
  Index ofWarps = 0;                      ///< see HeadNumbers
  mlir::Value code;                       ///< of the lane's row (i32)
  mlir::Value way;                        ///< a `Way` (i32)
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_POSITIONSUMS_H
