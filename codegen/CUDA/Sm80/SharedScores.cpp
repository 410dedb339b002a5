//===- SharedScores.cpp - Numbers of a tile in shared memory --------------===//

#include "codegen/CUDA/Sm80/SharedScores.h"
#include "codegen/CUDA/Sm80/WarpPart.h"

using namespace mlir;
using namespace sextant::codegen;

/// Of a number.
static constexpr int64_t elementBytes = 2;

SharedScores::SharedScores(ThreadBuilder &thread, const BackwardTile &tile)
    : thread(thread), tile(tile) {
  WarpPart part = WarpPart::get(thread, tile, thread.warp);
  Value key = thread.add(part.getRow(thread, tile), thread.div(thread.lane, 4));
  Value query = thread.add(part.getColumn(thread, tile),
                           thread.mul(thread.rem(thread.lane, 4), 2));
  own = thread.getShared(
      thread.add(thread.mul(key, tile.getScoreShape().getBytes()),
                 thread.mul(query, elementBytes)));
}

void SharedScores::store(ValueRange numbers, int64_t bytes) {
  Value to = thread.advance(own, bytes);
  int64_t rowBytes = tile.getScoreShape().getBytes();
  for (int64_t block = 0; block < tile.blocks; ++block)
    for (int64_t group = 0; group < tile.countGroups(); ++group)
      for (int64_t half : {0, 1}) {
        unsigned number = tile.getNumber(block, group, 2 * half);
        FragmentElement place = FragmentElement::get(block, group, 2 * half);
        thread.storeShared(
            thread.toElements(numbers[number], numbers[number + 1]),
            thread.advance(to,
                           place.row * rowBytes + place.column * elementBytes));
      }
}
