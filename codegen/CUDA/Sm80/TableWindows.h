//===- TableWindows.h - What a tile reads of tables -------------*- C++ -*-===//
//
// A tile meets as many neighbouring offsets as it has queries and keys, and
// reads an entry for each of its scores. So the part of a table that it meets
// comes to shared memory with its keys, and a thread reads what several of its
// scores share once.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H

#include "codegen/CUDA/Sm80/ForwardOperands.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

class TableWindows {
public:
  /// `row` and `column` (i32): the first score of the thread in a tile.
  TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
               const ForwardOperands &launch, mlir::Value row,
               mlir::Value column);

  /// Stands at a head and at the queries of a block, the first of which is
  /// `firstQuery` (i32).
  void enterQueries(Index batch, Index head, mlir::Value firstQuery);
  /// Begins to copy what the tile at `firstKey` (i32) reads, to a stage.
  /// Entries of keys that do not exist are zeros; there are none if the tile is
  /// whole.
  void copy(mlir::Value firstKey, mlir::Value stage, bool isWhole);
  /// Scores are those of a stage from here on.
  void enterTile(mlir::Value stage);

  /// The value at a score of the thread, so many rows and columns from its
  /// first one; null if it is in no window.
  mlir::Value load(const Hoisted &hoisted, int64_t row, int64_t column);

private:
  void copyEntries(mlir::Value from, mlir::Value to, int64_t entries,
                   mlir::Value count);
  mlir::Value getTable(const Hoisted &hoisted, Index batch, Index head);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardOperands &launch;
  mlir::Value row, column, keyLength;
  /// Addresses of the entries of key 0: of the first offset of a window, and of
  /// the vector.
  llvm::SmallVector<mlir::Value> offsets, keys;
  mlir::Value stageOfOffsets, stageOfKeys; ///< at the thread's first score
  mlir::Block *block = nullptr; ///< where what is loaded can be read again
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, mlir::Value> loaded;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_TABLEWINDOWS_H
