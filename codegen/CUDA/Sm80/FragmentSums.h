//===- FragmentSums.h - Sums of a payload's gradients -----------*- C++ -*-===//
//
// A score payload gives, per score, the cotangents of the hoisted values that
// it used, in f32 and where products left the scores. Of each value they are
// summed up in a fixed order:
//
//   over keys     in registers, until the queries of a head have passed
//   scalars       likewise
//   over queries  by the lanes of a warp, then over the warps
//   over offsets  matrices of 8 x 8 with the same offsets first; then each
//                 thread of the block adds the numbers of a diagonal or two
//
// Sums over queries and offsets go to the chunk's own sum with each tile. An
// element of it belongs to one thread at a time, from barrier to barrier, so it
// has one order, also where it is added to by an atomic: a load in its place
// kept the block waiting for memory twice per tile.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSUMS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSUMS_H

#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/WarpPart.h"

namespace sextant::codegen {

/// The sums of cotangents that a thread, a warp and a block keep, until they
/// are stored.
class FragmentSums {
public:
  using Values = KernelBuilder::Values;

  FragmentSums(ThreadBuilder &thread, ArgumentBlock &arguments,
               const BackwardOperands &launch);

  /// Whose cotangents are summed up, in the order of `addTile`.
  llvm::ArrayRef<const Hoisted *> getSinks() const { return sinks; }

  /// Once: clears what stays zero in shared memory.
  void clear();
  /// Stands at a head and at the keys from `firstKey` on (i32).
  void enterHead(const HeadNumbers &numbers, mlir::Value firstKey);
  /// Sums that tiles of a head carry.
  Values begin();
  /// Adds the cotangents of all sinks at the elements of a tile to what is
  /// carried, and stores what other threads sum up.
  void addTile(mlir::ValueRange cotangents,
               llvm::MutableArrayRef<mlir::Value> carried);
  /// Parts of `addTile`, for sinks whose cotangents are products of numbers at
  /// the elements with weights there.
  int64_t countDiagonals() const {
    return 2 * (tile.countThreadRows() + tile.countGroups() - 1);
  }
  int64_t countColumns() const { return 2 * tile.countGroups(); }
  /// The sums along the thread's diagonals, added to others (none: to 0).
  Values sumDiagonals(mlir::ValueRange numbers, mlir::ValueRange weights = {},
                      mlir::ValueRange before = {});
  void storeDiagonals(int64_t number, mlir::ValueRange sums);
  /// The sums over the thread's rows of each of its columns, by group and half.
  Values sumRows(mlir::ValueRange numbers, mlir::ValueRange weights = {});
  /// Takes such sums, times a factor (null: 1).
  void storeColumns(int64_t number, Values sums, mlir::Value factor = {});
  /// Behind a barrier: sums that up, of the tile of queries from `firstQuery`
  /// (i32) on.
  void finishTile(mlir::Value firstQuery);
  /// What is carried, when all queries of the head have passed.
  void finishHead(mlir::Value firstKey, mlir::ValueRange carried);

private:
  mlir::Value getColumn(mlir::Value word);
  mlir::Value sumDiagonal(mlir::Value own, int64_t word);
  void finishDiagonals(int64_t number, mlir::Value firstQuery);
  void finishColumns(int64_t number, mlir::Value firstQuery);
  void finishKeys(mlir::Value sums, mlir::Value firstKey,
                  mlir::ValueRange carried);
  void finishScalar(int64_t number, mlir::Value carried);
  /// The sum over the lanes that are `apart`, twice that, ... below `end`.
  mlir::Value sumLanes(mlir::Value value, int64_t apart, int64_t end);
  /// Address of a word of the block's sums, so many behind the thread's own.
  mlir::Value getWord(mlir::Value own, int64_t word);
  void addTo(mlir::Value address, mlir::Value addend, bool mayBeAtomic = false);
  /// Where the sums begin that tiles add to, sinks of offsets before those of
  /// queries, waits in shared memory.
  mlir::Value getPlace(int64_t number);
  void keepPlace(int64_t number, unsigned tensor, mlir::Value sums);
  mlir::Value findSums(int64_t number, unsigned tensor, Index first);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardOperands &launch;
  const BackwardTile &tile;
  llvm::SmallVector<const Hoisted *> sinks;
  WarpPart part;
  mlir::Value row, column; ///< the thread's first ones in its warp (i32)
  /// Addresses of the sums of the head, by member of SumSinks. Those that tiles
  /// add to wait in shared memory: each would take two registers.
  llvm::SmallVector<mlir::Value> ofKeys, ofScalars;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSUMS_H
