//===- FragmentProducts.cpp - Products of a tile on tensor cores ----------===//
//
// A load of four matrices is the left operand of one product (rows 0-7 and
// 8-15, by columns 0-7 and 8-15), or the right operands of two products that
// stand side by side. Rows of columns lie as right operands are read where
// their lanes are multiplied, and the other way round where they are added up.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/FragmentProducts.h"
#include "codegen/CUDA/Sm80/WarpPart.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Of a row of a matrix: 8 elements of 16 bits.
static constexpr int64_t chunkBytes = 16;
/// Of as many columns of a row as a product is deep.
static constexpr int64_t depthBytes = 2 * fragmentDepth;

FragmentProducts::FragmentProducts(ThreadBuilder &thread, const ScoreTile &tile)
    : thread(thread), tile(tile) {
  Value lane = thread.lane;
  Value low = thread.rem(lane, fragmentRows);
  Value high = thread.div(lane, fragmentRows);
  WarpPart part = WarpPart::get(thread, tile, thread.warp);
  leftRow = thread.add(part.getRow(thread, tile), low);
  leftChunk = thread.mul(high, chunkBytes);
  rightRow = thread.add(part.getColumn(thread, tile),
                        thread.add(thread.rem(lane, 8), thread.mul(high, 8)));
  rightChunk = thread.mul(thread.rem(thread.div(lane, 8), 2), chunkBytes);
  turnedRow = low;
  turnedChunk = leftChunk;
}

/// The address of a row and of a chunk in it, of rows at a place.
static Value getAddress(ThreadBuilder &thread, const SharedPlace &rows,
                        const SharedRowShape &shape, Value row, Value chunk) {
  Value own = thread.add(thread.mul(row, shape.getBytes()), chunk);
  return thread.advance(thread.advance(rows.base, own), rows.bytes);
}

Value FragmentProducts::enterColumns(const SharedPlace &columns,
                                     const SharedRowShape &shape) {
  return getAddress(thread, columns, shape, turnedRow, turnedChunk);
}

Value FragmentProducts::enterNumbers(const SharedPlace &numbers,
                                     const SharedRowShape &shape, Value first) {
  return getAddress(thread, numbers, shape, thread.add(first, turnedRow),
                    turnedChunk);
}

void FragmentProducts::multiplyPair(ArrayRef<Values> left, ValueRange right,
                                    int64_t columns, int64_t pair,
                                    MutableArrayRef<Value> sums) {
  for (auto [block, rows] : llvm::enumerate(left))
    for (int64_t half : {0, 1}) {
      auto at =
          sums.slice((block * columns + 2 * pair + half) * fragmentElements,
                     fragmentElements);
      llvm::copy(thread.multiply(rows, right.slice(2 * half, 2), at),
                 at.begin());
    }
}

void FragmentProducts::multiply(const SharedPlace &rows,
                                const SharedPlace &columns,
                                const SharedRowShape &shape,
                                MutableArrayRef<Value> sums) {
  int64_t bytes = shape.getBytes();
  int64_t groups = tile.countGroups();
  Value leftRows = getAddress(thread, rows, shape, leftRow, leftChunk);
  Value right = getAddress(thread, columns, shape, rightRow, rightChunk);
  for (int64_t step = 0; step < shape.padded / fragmentDepth; ++step) {
    SmallVector<Values> left;
    for (int64_t block = 0; block < tile.blocks; ++block)
      left.push_back(thread.loadMatrices(
          thread.advance(leftRows,
                         block * fragmentRows * bytes + step * depthBytes),
          /*isTransposed=*/false));
    for (int64_t pair = 0; pair < groups / 2; ++pair) {
      Values loaded = thread.loadMatrices(
          thread.advance(right, pair * 2 * fragmentColumns * bytes +
                                    step * depthBytes),
          /*isTransposed=*/false);
      multiplyPair(left, loaded, groups, pair, sums);
    }
  }
}

/// Sums of 16 rows by 16 columns, from column `first` on, are a left operand as
/// they lie.
SmallVector<Values> FragmentProducts::toOperand(ValueRange numbers,
                                                int64_t first) {
  SmallVector<Values> operands(tile.blocks);
  for (int64_t block = 0; block < tile.blocks; ++block)
    for (int64_t half : {0, 1})
      for (int64_t row : {0, 1}) {
        unsigned at =
            tile.getNumber(block, first / fragmentColumns + half, 2 * row);
        operands[block].push_back(
            thread.toElements(numbers[at], numbers[at + 1]));
      }
  return operands;
}

void FragmentProducts::addRows(ValueRange numbers, const SharedPlace &columns,
                               const SharedRowShape &shape,
                               MutableArrayRef<Value> sums) {
  assert(tile.columnParts == 1 && "a warp has all columns");
  int64_t bytes = shape.getBytes(), groups = shape.padded / fragmentColumns;
  Value right = enterColumns(columns, shape);
  for (int64_t first = 0; first < tile.columns; first += fragmentDepth) {
    SmallVector<Values> left = toOperand(numbers, first);
    for (int64_t pair = 0; pair < groups / 2; ++pair) {
      Values loaded = thread.loadMatrices(
          thread.advance(right, first * bytes + pair * depthBytes),
          /*isTransposed=*/true);
      multiplyPair(left, loaded, groups, pair, sums);
    }
  }
}
