//===- AllHeadsTile.cpp - A tile of the scores of all heads ---------------===//

#include "codegen/CUDA/Sm80/AllHeadsTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// As many threads as a tile has pairs of a query and a key.
static constexpr int64_t warpsOfBlock = 8;
static constexpr int64_t keysOfTile = warpsOfBlock * warpLanes / fragmentRows;

AllHeadsTile::AllHeadsTile(int64_t heads, int64_t headDim,
                           ArrayRef<int64_t> valueDims)
    : heads(heads), ofHead(headDim, valueDims) {
  ofHead.warps = warpsOfBlock;
  ofHead.blocks = 1;
  ofHead.columns = keysOfTile;
}

int64_t AllHeadsTile::countRowBytes(unsigned values) const {
  int64_t bytes = heads * getRowBytes(ofHead.query);
  for (unsigned number = 0; number < values; ++number)
    bytes += heads * getRowBytes(ofHead.values[number]);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Heads of a warp
//===----------------------------------------------------------------------===//

SmallVector<WarpHead> codegen::findHeadsOfWarp(ThreadBuilder &thread,
                                               ArgumentBlock &arguments,
                                               const SiteOperands &sites,
                                               const AllHeadsTile &tile) {
  KernelBuilder &kernel = thread.kernel;
  int64_t warps = tile.ofHead.warps;
  Index group = kernel.div(tile.heads, arguments.getSize(sites.key, 1));
  SmallVector<WarpHead> heads;
  for (int64_t round = 0; round < tile.countRounds(); ++round) {
    WarpHead head;
    head.number = thread.add(thread.warp, round * warps);
    if ((round + 1) * warps > tile.heads)
      head.exists = thread.less(head.number, thread.constant(tile.heads));
    head.ofKeys = kernel.toI32(kernel.div(kernel.fromI32(head.number), group));
    heads.push_back(head);
  }
  return heads;
}

void WarpHead::where(KernelBuilder &kernel, function_ref<void()> body) const {
  if (exists)
    kernel.when(exists, body);
  else
    body();
}

Values WarpHead::choose(KernelBuilder &kernel, const Values &before,
                        function_ref<Values()> body) const {
  if (!exists)
    return body();
  return kernel.choose(exists, ValueRange(before).getTypes(), body,
                       [&] { return before; });
}

//===----------------------------------------------------------------------===//
// Scores of a head
//===----------------------------------------------------------------------===//

HeadScores::HeadScores(ThreadBuilder &thread, const AllHeadsTile &tile)
    : thread(thread), tile(tile) {
  Value row = thread.div(thread.lane, 4);
  Value column = thread.mul(thread.rem(thread.lane, 4), 2);
  own = thread.mul(thread.add(thread.mul(row, tile.ofHead.columns), column),
                   wordBytes);
}

void HeadScores::forPairs(int64_t first, Value head,
                          function_ref<void(unsigned, Value)> body) {
  const ForwardTile &ofHead = tile.ofHead;
  Value start = thread.getShared(thread.add(
      thread.add(thread.mul(head, tile.getScoreBytes()), own), first));
  for (int64_t group = 0; group < ofHead.countGroups(); ++group)
    for (int64_t half : {0, 1}) {
      FragmentElement place = FragmentElement::get(0, group, 2 * half);
      int64_t words = place.row * ofHead.columns + place.column;
      body(ofHead.getNumber(0, group, 2 * half),
           thread.advance(start, wordBytes * words));
    }
}

void HeadScores::store(ValueRange numbers, int64_t first, Value head) {
  forPairs(first, head, [&](unsigned at, Value address) {
    thread.storePair(numbers[at], numbers[at + 1], address);
  });
}

Values HeadScores::load(int64_t first, Value head) {
  Values numbers(tile.ofHead.countScores());
  forPairs(first, head, [&](unsigned at, Value address) {
    std::tie(numbers[at], numbers[at + 1]) = thread.loadPair(address);
  });
  return numbers;
}
