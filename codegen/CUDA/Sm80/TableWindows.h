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

#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

class TableWindows {
public:
  /// `row` and `column` (i32): the first score of the thread in a tile.
  TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
               const FragmentOperands &launch, const ScoreTile &tile,
               mlir::Value row, mlir::Value column);

  /// Stands at a head and at the rows of a block, the first of which is
  /// `firstRow` (i32).
  void enterRows(Index batch, Index head, mlir::Value firstRow);
  /// Begins to copy what the tile at `firstColumn` (i32) reads to `to`. Entries
  /// of columns that do not exist are zeros; there are none if the tile is
  /// whole.
  void copy(mlir::Value firstColumn, mlir::Value to, bool isWhole);
  /// Scores are those of the windows at `from` from here on.
  void enterTile(mlir::Value from);

  /// The value at a score of the thread; null if it is in no window.
  mlir::Value load(const Hoisted &hoisted, const FragmentElement &element);

private:
  mlir::Value getTable(const Hoisted &hoisted, Index batch, Index head);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  mlir::Value row, column, columnLength;
  /// Addresses of the entries of column 0: of the first offset of a window, and
  /// of the vector.
  llvm::SmallVector<mlir::Value> offsets, columns;
  mlir::Value windowOfOffsets, windowOfColumns; ///< at the thread's first score
  mlir::Block *block = nullptr; ///< where what is loaded can be read again
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, mlir::Value> loaded;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H
