//===- FragmentRows.h - Sums of rows that a thread holds --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Sums [block][8 lanes][element] of the rows of a tile, of rows of a shape.
class FragmentRows {
public:
  /// `column` (i32): the thread's first one of eight.
  FragmentRows(ThreadBuilder &thread, const ScoreTile &tile,
               const SharedRowShape &shape, mlir::Value column)
      : thread(thread), kernel(thread.kernel), tile(tile), shape(shape),
        column(column) {}

  int64_t countSums() const { return tile.blocks * shape.padded / 2; }
  /// The row of the thread that a sum belongs to.
  int64_t getRow(int64_t number) const {
    int64_t perBlock = shape.padded / 2;
    return 2 * (number / perBlock) + number % fragmentElements / 2;
  }

  /// Stores what `finish` makes of the sums of a row of the thread as elements
  /// of `type`, the thread's or f32, of the row at `to`.
  void store(mlir::ValueRange sums, int64_t row, mlir::Value to,
             mlir::Type type,
             llvm::function_ref<mlir::Value(mlir::Value)> finish);

private:
  /// Calls `body` where the element of a row exists.
  void whereColumn(int64_t columns, llvm::function_ref<void()> body);
  void storeWord(mlir::Value word, mlir::Value to, int64_t columns);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  const ScoreTile &tile;
  SharedRowShape shape;
  mlir::Value column;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H
