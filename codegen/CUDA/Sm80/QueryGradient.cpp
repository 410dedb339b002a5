//===- QueryGradient.cpp - The gradient of queries in a backward ----------===//

#include "codegen/CUDA/Sm80/QueryGradient.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Bytes of 8 elements of dS, and of 16.
static constexpr int64_t chunkBytes = 16, unitBytes = 32;
/// Lanes of a product of two right operands, and how many of these a warp makes
/// at a time.
static constexpr int64_t unitLanes = 16, mostUnits = 4;

static int64_t countBlocks(const ScoreTile &tile) {
  return tile.columns / fragmentRows;
}

QueryGradient::QueryGradient(ThreadBuilder &thread, ArgumentBlock &arguments,
                             FragmentProducts &products,
                             const BackwardOperands &launch)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      products(products), launch(launch), tile(launch.tile),
      isInOrder(!launch.isUnordered),
      row(launch.layout.tensors[launch.queryGradient].getDimSize(4)) {
  assert(tile.warps % countBlocks(tile) == 0 && "warps share queries out");
  int64_t bytes = tile.getScoreShape().getBytes();
  Value lane = thread.lane;
  Value start = thread.getShared(thread.constant(0));
  auto getAddress = [&](Value own) {
    return thread.advance(thread.advance(start, own), tile.getScoreGradients());
  };
  Value ownKey = thread.add(thread.mul(thread.warp, tile.countWarpRows()),
                            thread.div(lane, 4));
  stored = getAddress(thread.add(thread.mul(ownKey, bytes),
                                 thread.mul(thread.rem(lane, 4), wordBytes)));
  block = thread.rem(thread.warp, countBlocks(tile));
  group = thread.div(thread.warp, countBlocks(tile));
  // Matrices of 8 keys by 8 queries, which a load turns: queries 0-7 and 8-15
  // of keys 0-7, then of keys 8-15.
  Value key = thread.add(thread.rem(lane, 8),
                         thread.mul(thread.div(lane, fragmentRows), 8));
  Value chunk = thread.rem(thread.div(lane, 8), 2);
  left = getAddress(thread.add(
      thread.mul(key, bytes),
      thread.add(thread.mul(chunk, chunkBytes), thread.mul(block, unitBytes))));
}

void QueryGradient::enterHead(const HeadNumbers &numbers) {
  head = arguments.getAddress(
      launch.queryGradient,
      {0, 0, isInOrder ? numbers.ofChunks : numbers.ofHeads});
}

void QueryGradient::store(ValueRange scoreGradients) {
  int64_t bytes = tile.getScoreShape().getBytes();
  for (int64_t blockOfKeys = 0; blockOfKeys < tile.blocks; ++blockOfKeys)
    for (int64_t columns = 0; columns < tile.columns / fragmentColumns;
         ++columns)
      for (int64_t half : {0, 1}) {
        unsigned number = tile.getNumber(blockOfKeys, columns, 2 * half);
        Value word = thread.toElements(scoreGradients[number],
                                       scoreGradients[number + 1]);
        int64_t keys = blockOfKeys * fragmentRows + 8 * half;
        thread.storeShared(
            word, thread.advance(stored, keys * bytes + columns * chunkBytes));
      }
}

void QueryGradient::forPairs(Value to, int64_t units,
                             function_ref<void(int64_t, Value)> body) {
  constexpr int64_t halfRows = fragmentRows / 2;
  for (int64_t unit = 0; unit < units; ++unit)
    for (int64_t lanes : {0, 1})
      for (int64_t half : {0, 1})
        body(((2 * unit + lanes) * 2 + half) * 2,
             kernel.advance(to, {half * halfRows * row + unit * unitLanes +
                                 lanes * fragmentColumns}));
}

Values QueryGradient::begin(Value to, int64_t units) {
  Values sums(units * 2 * fragmentElements, kernel.constantF32(0));
  if (isInOrder)
    forPairs(to, units, [&](int64_t number, Value place) {
      std::tie(sums[number], sums[number + 1]) = thread.loadPair(place);
    });
  return sums;
}

void QueryGradient::end(ValueRange sums, Value to) {
  int64_t units = sums.size() / (2 * fragmentElements);
  forPairs(to, units, [&](int64_t number, Value place) {
    if (isInOrder)
      return thread.storePair(sums[number], sums[number + 1], place);
    thread.addAtomically(sums[number], place);
    thread.addAtomically(sums[number + 1], kernel.advance(place, {1}));
  });
}

void QueryGradient::addUnits(Value to, Value keys, int64_t units) {
  Values sums = begin(to, units);
  for (int64_t first = 0; first < tile.countRows(); first += fragmentDepth) {
    Values turned = thread.loadMatrices(
        thread.advance(left, first * tile.getScoreShape().getBytes()),
        /*isTransposed=*/true);
    for (int64_t unit = 0; unit < units; ++unit) {
      Values right = thread.loadMatrices(
          thread.advance(keys, first * tile.head.getBytes() + unit * unitBytes),
          /*isTransposed=*/true);
      for (int64_t half : {0, 1}) {
        auto at = MutableArrayRef(sums).slice(
            (2 * unit + half) * fragmentElements, fragmentElements);
        llvm::copy(
            thread.multiply(turned, ArrayRef(right).slice(2 * half, 2), at),
            at.begin());
      }
    }
  }
  end(sums, to);
}

void QueryGradient::add(Value first, Value keys) {
  int64_t units = tile.head.padded / unitLanes;
  int64_t groups = tile.warps / countBlocks(tile);
  int64_t each = llvm::divideCeil(units, groups);
  Value query = thread.add(first, thread.add(thread.mul(block, fragmentRows),
                                             thread.div(thread.lane, 4)));
  Value column = thread.mul(thread.rem(thread.lane, 4), 2);
  Value firstUnit = thread.mul(group, each);
  Value to = kernel.advance(
      head,
      {kernel.mul(kernel.fromI32(query), row),
       kernel.fromI32(thread.add(thread.mul(firstUnit, unitLanes), column))});
  Value right = thread.advance(products.enterColumns({keys}, tile.head),
                               thread.mul(firstUnit, unitBytes));
  // Where groups do not share the units evenly, the last ones have fewer.
  bool isEven = each * groups == units;
  int64_t step = isEven ? mostUnits : 1;
  for (int64_t unit = 0; unit < each; unit += step) {
    auto addOwn = [&] {
      addUnits(kernel.advance(to, {unit * unitLanes}),
               thread.advance(right, unit * unitBytes),
               std::min(step, each - unit));
    };
    if (isEven)
      addOwn();
    else
      kernel.when(
          thread.less(thread.add(firstUnit, unit), thread.constant(units)),
          addOwn);
  }
}
