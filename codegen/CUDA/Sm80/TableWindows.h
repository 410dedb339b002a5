//===- TableWindows.h - What a tile reads of tables -------------*- C++ -*-===//
//
// A tile meets as many neighbouring offsets as it has rows and columns, and
// reads an entry for each of its scores. So the part of a table that it meets
// comes to shared memory with its columns, and a thread reads what several of
// its scores share once.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H

#include "codegen/CUDA/Sm80/ChunkCopies.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/CUDA/Sm80/SharedRows.h"
#include "codegen/CUDA/Sm80/Teams.h"

namespace sextant::codegen {

/// Where windows lie of which scores have entries.
struct WindowPlaces {
  mlir::Value offsets, columns;
};

/// The parts of tables that a tile reads, in shared memory and in registers.
class TableWindows {
public:
  /// `row` and `column` (i32): the first score of the thread in a tile.
  /// `isPacked` (i1, null: never): teams have heads and windows of their own.
  TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
               const FragmentOperands &launch, const ScoreTile &tile,
               mlir::Value row, mlir::Value column, mlir::Value isPacked);

  /// Stands at a head and at the rows of a block, the first of which is
  /// `firstRow` (i32). With tables come `others`, whose place is counted from
  /// the windows, too.
  void enterRows(Index batch, Index head, mlir::Value firstRow,
                 llvm::ArrayRef<ChunkPart> others);
  /// Begins to copy what the tile at `firstColumn` (i32) reads to `to`: of
  /// tables over offsets and what comes with them, and of vectors. Entries of
  /// columns that do not exist are zeros in these; there are none if the tile
  /// is whole.
  void copyChunks(mlir::Value firstColumn, mlir::Value to) {
    chunks.copy(firstColumn, to);
  }
  void copyVectors(mlir::Value firstColumn, mlir::Value to, bool isWhole);
  /// Scores are those of the windows at `from` from here on.
  void enterTile(mlir::Value from);

  /// Scores are so many columns (i32) further, until `restore`; gives where
  /// they were.
  WindowPlaces shift(mlir::Value count);
  void restore(const WindowPlaces &places);

  /// The value at a score of the thread; null if it is in no window.
  mlir::Value load(const Hoisted &hoisted, const FragmentElement &element);

  /// Number `entry` (i32) of those that scores of the warp have, in their
  /// order.
  mlir::Value loadOfWarp(const Hoisted &hoisted, mlir::Value entry);

private:
  /// The place of a value's window among those of its form; none if it has
  /// none.
  std::optional<int64_t> find(const Hoisted &hoisted) const;
  /// Begins to copy a word per column of each vector, by the threads that
  /// `count` has, to the windows of team `team` (i32).
  void copyColumns(mlir::Value firstColumn, mlir::Value to, mlir::Value team,
                   const WordCount &count, mlir::Value given);
  /// One or the other, by whether teams have heads of their own.
  mlir::Value choose(mlir::Value packed, mlir::Value other);
  mlir::Value getTable(const Hoisted &hoisted, Index batch, Index head);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  mlir::Value row, column, isPacked, columnLength;
  TeamPlace place;
  ChunkCopies chunks;
  /// Addresses of the vectors' entries of column 0.
  llvm::SmallVector<mlir::Value> columns;
  mlir::Value windows;                          ///< of the tile
  mlir::Value windowOfOffsets, windowOfColumns; ///< at the thread's first score
  mlir::Block *block = nullptr; ///< where what is loaded can be read again
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, mlir::Value> loaded;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H
