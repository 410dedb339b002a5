//===- FragmentRows.h - Sums of rows that a thread holds --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Sums [block][8 lanes][element] of rows of a shape.
class FragmentRows {
public:
  /// Of so many blocks of 16 rows. `column` (i32): the thread's first one.
  FragmentRows(ThreadBuilder &thread, int64_t blocks,
               const SharedRowShape &shape, mlir::Value column)
      : FragmentRows(thread, blocks, shape, shape.padded, column) {}
  /// Likewise of `lanes` of the lanes of a row, wherever they begin.
  FragmentRows(ThreadBuilder &thread, int64_t blocks,
               const SharedRowShape &shape, int64_t lanes, mlir::Value column)
      : thread(thread), kernel(thread.kernel), blocks(blocks), shape(shape),
        lanes(lanes), column(column) {}

  int64_t countSums() const { return blocks * lanes / 2; }
  /// Rows that the thread has sums of: two of each block.
  int64_t countRows() const { return 2 * blocks; }
  /// The row of the thread that a sum belongs to.
  int64_t getRow(int64_t number) const {
    int64_t perBlock = lanes / 2;
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
  int64_t blocks;
  SharedRowShape shape;
  int64_t lanes;
  mlir::Value column;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTROWS_H
