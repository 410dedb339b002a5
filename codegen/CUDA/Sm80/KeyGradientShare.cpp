//===- KeyGradientShare.cpp - What a warp makes of dK and dV --------------===//

#include "codegen/CUDA/Sm80/KeyGradientShare.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Bytes of an element, and of as many columns as a product is deep.
static constexpr int64_t elementBytes = 2,
                         depthBytes = elementBytes * fragmentDepth;

KeyGradientShare::KeyGradientShare(ThreadBuilder &thread,
                                   FragmentProducts &products,
                                   const BackwardTile &tile)
    : thread(thread), products(products), tile(tile) {
  int64_t half = tile.warps / 2;
  assert(half == tile.gradientParts * tile.gradientParts &&
         "warps share keys and lanes of both gradients out");
  isOfKeys = thread.less(thread.constant(half - 1), thread.warp);
  Value own = thread.rem(thread.warp, half);
  firstKey = thread.mul(thread.rem(own, tile.gradientParts),
                        tile.countGradientBlocks() * fragmentRows);
  firstLane = thread.mul(thread.div(own, tile.gradientParts),
                         tile.countGradientLanes(tile.head));
  auto choose = [&](int64_t ofKeys, int64_t ofValues) {
    return thread.select(isOfKeys, thread.constant(ofKeys),
                         thread.constant(ofValues));
  };
  left =
      products.enterNumbers({thread.getShared(choose(tile.getScoreGradients(),
                                                     tile.getProbabilities()))},
                            tile.getScoreShape(), firstKey);
  right = thread.add(choose(0, tile.getOutputGradients(0)),
                     thread.mul(firstLane, elementBytes));
}

void KeyGradientShare::add(Value stage, MutableArrayRef<Value> sums) {
  int64_t rowBytes = tile.getScoreShape().getBytes();
  int64_t groups = tile.countGradientLanes(tile.head) / fragmentColumns;
  Value rows = products.enterColumns({thread.advance(stage, right)}, tile.head);
  for (int64_t first = 0; first < tile.columns; first += fragmentDepth) {
    SmallVector<Values> numbers;
    for (int64_t block = 0; block < tile.countGradientBlocks(); ++block)
      numbers.push_back(thread.loadMatrices(
          thread.advance(left, block * fragmentRows * rowBytes +
                                   first * elementBytes),
          /*isTransposed=*/false));
    for (int64_t pair = 0; pair < groups / 2; ++pair) {
      Values loaded = thread.loadMatrices(
          thread.advance(rows,
                         first * tile.head.getBytes() + pair * depthBytes),
          /*isTransposed=*/true);
      products.multiplyPair(numbers, loaded, groups, pair, sums);
    }
  }
}
