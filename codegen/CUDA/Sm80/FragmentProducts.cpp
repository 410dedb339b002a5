//===- FragmentProducts.cpp - Products of a tile on tensor cores ----------===//
//
// A load of four matrices is the left operand of one product (rows 0-7 and
// 8-15, by columns 0-7 and 8-15), or the right operands of two products that
// stand side by side. Keys lie as right operands are read, values the other way
// round.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/FragmentProducts.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Of a row of a matrix: 8 elements of 16 bits.
static constexpr int64_t chunkBytes = 16;
/// Of as many columns of a row as a product is deep.
static constexpr int64_t depthBytes = 2 * fragmentDepth;

FragmentProducts::FragmentProducts(ThreadBuilder &thread,
                                   const ForwardTile &tile)
    : thread(thread), tile(tile) {
  Value lane = thread.lane;
  Value low = thread.rem(lane, fragmentRows);
  Value high = thread.div(lane, fragmentRows);
  Value row = thread.add(thread.mul(thread.warp, tile.countWarpQueries()), low);
  queries = thread.getShared(thread.add(thread.mul(row, tile.query.getBytes()),
                                        thread.mul(high, chunkBytes)));
  keyRow = thread.add(thread.rem(lane, 8), thread.mul(high, 8));
  keyChunk = thread.mul(thread.rem(thread.div(lane, 8), 2), chunkBytes);
  valueRow = low;
  valueChunk = thread.mul(high, chunkBytes);
}

void FragmentProducts::multiplyPair(ArrayRef<Values> left, ValueRange right,
                                    int64_t columns, int64_t pair,
                                    MutableArrayRef<Value> sums) {
  for (int64_t block = 0; block < tile.blocks; ++block)
    for (int64_t half : {0, 1}) {
      auto at =
          sums.slice((block * columns + 2 * pair + half) * fragmentElements,
                     fragmentElements);
      llvm::copy(thread.multiply(left[block], right.slice(2 * half, 2), at),
                 at.begin());
    }
}

Values FragmentProducts::multiplyKeys(Value stage) {
  int64_t bytes = tile.query.getBytes();
  int64_t columns = tile.keys / fragmentColumns;
  Value keys =
      thread.advance(stage, thread.add(thread.mul(keyRow, bytes), keyChunk));
  Values sums(tile.blocks * columns * fragmentElements,
              thread.kernel.constantF32(0));
  for (int64_t step = 0; step < tile.query.padded / fragmentDepth; ++step) {
    SmallVector<Values> left;
    for (int64_t block = 0; block < tile.blocks; ++block)
      left.push_back(thread.loadMatrices(
          thread.advance(queries,
                         block * fragmentRows * bytes + step * depthBytes),
          /*isTransposed=*/false));
    for (int64_t pair = 0; pair < columns / 2; ++pair) {
      Values right = thread.loadMatrices(
          thread.advance(keys, pair * 2 * fragmentColumns * bytes +
                                   step * depthBytes),
          /*isTransposed=*/false);
      multiplyPair(left, right, columns, pair, sums);
    }
  }
  return sums;
}

/// Sums of 16 rows by 16 columns, from column `first` on, are a left operand as
/// they lie.
SmallVector<Values> FragmentProducts::toOperand(ValueRange probabilities,
                                                int64_t first) {
  int64_t columns = tile.keys / fragmentColumns;
  SmallVector<Values> operands(tile.blocks);
  for (int64_t block = 0; block < tile.blocks; ++block)
    for (int64_t half : {0, 1})
      for (int64_t row : {0, 1}) {
        int64_t at = (block * columns + first / fragmentColumns + half) *
                         fragmentElements +
                     2 * row;
        operands[block].push_back(
            thread.toBf16(probabilities[at], probabilities[at + 1]));
      }
  return operands;
}

void FragmentProducts::addValues(Value stage, unsigned number,
                                 ValueRange probabilities,
                                 MutableArrayRef<Value> output) {
  const SharedRowShape &shape = tile.values[number];
  int64_t bytes = shape.getBytes(), columns = shape.padded / fragmentColumns;
  Value values = thread.advance(
      thread.advance(stage,
                     thread.add(thread.mul(valueRow, bytes), valueChunk)),
      tile.getValues(number));
  for (int64_t first = 0; first < tile.keys; first += fragmentDepth) {
    SmallVector<Values> left = toOperand(probabilities, first);
    for (int64_t pair = 0; pair < columns / 2; ++pair) {
      Values right = thread.loadMatrices(
          thread.advance(values, first * bytes + pair * depthBytes),
          /*isTransposed=*/true);
      multiplyPair(left, right, columns, pair, output);
    }
  }
}
