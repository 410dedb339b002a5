//===- ItemOrder.cpp - Items that add to the same rows in turn ------------===//

#include "codegen/CPU/Backward/ItemOrder.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value ItemOrder::getProgress(Index item) {
  return arguments.getAddress(progress, {at.batch, item});
}

/// Waits until the item that is `before` this one, if there is one, has done
/// with so many blocks.
void ItemOrder::await(Index before, Index blocks) {
  Index item = kernel.sub(at.chunk, before);
  kernel.when(kernel.less(kernel.sub(before, 1), at.chunk), [&] {
    Value done = getProgress(item);
    kernel.waitUntil([&] {
      return kernel.less(kernel.sub(blocks, 1),
                         Index(kernel.loadAcquired(done)));
    });
  });
}

/// One more than the blocks: the item has ended.
static Index countToEnd(BackwardItem &at) {
  Index blocks =
      at.kernel.ceilDiv(at.getLength(pos::Side::query), at.shape.queries);
  return at.kernel.add(blocks, 1);
}

void ItemOrder::begin() { await(at.countSums(), countToEnd(at)); }

void ItemOrder::awaitTurn() {
  await(arguments.getSize(*at.launch.queryGradient, 0),
        kernel.add(getBlock(), 1));
}

void ItemOrder::endTurn() {
  // Also of a block to which the item has not added: what the next one may add
  // to, all those before it have.
  awaitTurn();
  kernel.storeReleased(kernel.value(kernel.add(getBlock(), 1)),
                       getProgress(at.chunk));
}

void ItemOrder::end() {
  kernel.storeReleased(kernel.value(countToEnd(at)), getProgress(at.chunk));
}
