//===- FragmentProducts.h - Products of a tile on tensor cores --*- C++ -*-===//
//
// Two kinds of products: rows of one operand times rows of another give sums
// [block][8 columns][element] of a tile of scores; such numbers times rows give
// sums [block][8 lanes][element] over the columns of the tile.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// A place in shared memory, so many bytes behind an address. What a thread
/// adds to addresses is the same for all places of one, and constants are part
/// of instructions.
struct SharedPlace {
  mlir::Value base;
  int64_t bytes = 0;
};

/// Products of rows in shared memory with each other, and of fragments with
/// such rows.
class FragmentProducts {
public:
  using Values = KernelBuilder::Values;

  FragmentProducts(ThreadBuilder &thread, const ScoreTile &tile);

  /// Adds rows of the warp times the rows at `columns`, both of a shape. The
  /// rows of the block are at `rows`.
  void multiply(const SharedPlace &rows, const SharedPlace &columns,
                const SharedRowShape &shape,
                llvm::MutableArrayRef<mlir::Value> sums);
  /// Adds the numbers of a tile, rounded to elements, times the rows of its
  /// columns at a place.
  void addRows(mlir::ValueRange numbers, const SharedPlace &columns,
               const SharedRowShape &shape,
               llvm::MutableArrayRef<mlir::Value> sums);
  /// What the thread names of 16 rows as right operands of such a product.
  mlir::Value enterColumns(const SharedPlace &columns,
                           const SharedRowShape &shape);
  /// Likewise of 16 rows of numbers of a tile, from row `first` (i32) on, as
  /// left operands.
  mlir::Value enterNumbers(const SharedPlace &numbers,
                           const SharedRowShape &shape, mlir::Value first);
  /// Adds the products of blocks of rows with a pair of right operands to sums
  /// [block][8 columns][element] of so many columns.
  void multiplyPair(llvm::ArrayRef<Values> left, mlir::ValueRange right,
                    int64_t columns, int64_t pair,
                    llvm::MutableArrayRef<mlir::Value> sums);

private:
  llvm::SmallVector<Values> toOperand(mlir::ValueRange numbers, int64_t first);

  ThreadBuilder &thread;
  const ScoreTile &tile;
  /// Rows and bytes in them that the thread names of left operands of the warp,
  /// of right ones, and of right ones that lie the other way round.
  mlir::Value leftRow, leftChunk, rightRow, rightChunk, turnedRow, turnedChunk;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H
