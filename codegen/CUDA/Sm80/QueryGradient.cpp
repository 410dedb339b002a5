//===- QueryGradient.cpp - The gradient of queries in a backward ----------===//

#include "codegen/CUDA/Sm80/QueryGradient.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Bytes of 8 elements of dS, and of 16.
static constexpr int64_t chunkBytes = 16, unitBytes = 32;
/// Lanes of a product of two right operands, and how many of these of 16
/// queries a warp makes at a time.
static constexpr int64_t unitLanes = 16, mostUnits = 4;

/// A product loads as many matrices of dS as it has blocks, and one of keys per
/// unit: the fewest of both. Units that groups cannot share evenly take one
/// block.
QueryGradient::Share::Share(const BackwardTile &tile) {
  int64_t allUnits = tile.head.padded / unitLanes;
  int64_t least = INT64_MAX;
  for (int64_t ofWarp : {1, 2}) {
    int64_t allBlocks = tile.columns / fragmentRows;
    if (allBlocks % ofWarp != 0 || tile.warps % (allBlocks / ofWarp) != 0)
      continue;
    int64_t all = tile.warps / (allBlocks / ofWarp);
    int64_t each = llvm::divideCeil(allUnits, all);
    if (ofWarp + each >= least || (ofWarp > 1 && each * all != allUnits))
      continue;
    least = ofWarp + each;
    blocks = ofWarp;
    groups = all;
    units = each;
  }
  assert(least != INT64_MAX && "warps share queries out");
}

QueryGradient::QueryGradient(ThreadBuilder &thread, ArgumentBlock &arguments,
                             FragmentProducts &products,
                             const BackwardOperands &launch)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      products(products), launch(launch), tile(launch.tile), share(tile),
      isInOrder(!launch.isUnordered),
      row(launch.layout.tensors[launch.queryGradient].getDimSize(4)) {
  int64_t bytes = tile.getScoreShape().getBytes();
  Value lane = thread.lane;
  Value start = thread.getShared(thread.constant(0));
  block = thread.rem(thread.warp, tile.warps / share.groups);
  group = thread.div(thread.warp, tile.warps / share.groups);
  // Matrices of 8 keys by 8 queries, which a load turns: queries 0-7 and 8-15
  // of keys 0-7, then of keys 8-15.
  Value key = thread.add(thread.rem(lane, 8),
                         thread.mul(thread.div(lane, fragmentRows), 8));
  Value chunk = thread.rem(thread.div(lane, 8), 2);
  Value own =
      thread.add(thread.mul(key, bytes),
                 thread.add(thread.mul(chunk, chunkBytes),
                            thread.mul(block, share.blocks * unitBytes)));
  left = thread.advance(thread.advance(start, own), tile.getScoreGradients());
}

void QueryGradient::enterHead(const HeadNumbers &numbers) {
  head = arguments.getAddress(
      launch.queryGradient,
      {0, 0, isInOrder ? numbers.ofChunks : numbers.ofHeads});
}

void QueryGradient::copy(Value first) {
  int64_t bytes = tile.getQuerySumBytes();
  int64_t chunks = tile.head.padded / windowUnit;
  int64_t rowThreads = static_cast<int64_t>(llvm::PowerOf2Ceil(chunks));
  int64_t perPass = tile.countThreads() / rowThreads;
  Value chunk = thread.rem(thread.thread, rowThreads);
  Value own = thread.div(thread.thread, rowThreads);
  Value from = kernel.advance(
      head, {kernel.mul(kernel.fromI32(thread.add(first, own)), row),
             kernel.fromI32(thread.mul(chunk, windowUnit))});
  Value to = thread.advance(
      thread.getShared(thread.constant(tile.getQuerySums())),
      thread.add(thread.mul(own, bytes), thread.mul(chunk, chunkBytes)));
  auto copyPasses = [&] {
    for (int64_t before = 0; before < tile.columns; before += perPass) {
      auto copyOne = [&] {
        thread.copy(thread.advance(to, before * bytes),
                    kernel.advance(from, {before * row}), chunkBytes,
                    thread.constant(chunkBytes));
      };
      if (before + perPass <= tile.columns)
        copyOne();
      else
        kernel.when(thread.less(own, thread.constant(tile.columns - before)),
                    copyOne);
    }
  };
  if (chunks == rowThreads)
    return copyPasses();
  kernel.when(thread.less(chunk, thread.constant(chunks)), copyPasses);
}

void QueryGradient::forPairs(
    int64_t units,
    function_ref<void(int64_t number, int64_t row, int64_t lane)> body) {
  int64_t number = 0;
  for (int64_t ofQueries = 0; ofQueries < share.blocks; ++ofQueries)
    for (int64_t lanes = 0; lanes < 2 * units; ++lanes)
      for (int64_t half : {0, 1}) {
        body(number, ofQueries * fragmentRows + half * fragmentRows / 2,
             lanes * fragmentColumns);
        number += 2;
      }
}

Values QueryGradient::begin(Value to, Value kept, int64_t units) {
  Values sums(share.blocks * units * 2 * fragmentElements,
              kernel.constantF32(0));
  if (!isInOrder)
    return sums;
  forPairs(units, [&](int64_t number, int64_t ownRow, int64_t lane) {
    Value place = kept ? thread.advance(kept, ownRow * tile.getQuerySumBytes() +
                                                  lane * wordBytes)
                       : kernel.advance(to, {ownRow * row + lane});
    std::tie(sums[number], sums[number + 1]) = thread.loadPair(place);
  });
  return sums;
}

void QueryGradient::end(ValueRange sums, Value to) {
  int64_t units = sums.size() / (share.blocks * 2 * fragmentElements);
  forPairs(units, [&](int64_t number, int64_t ownRow, int64_t lane) {
    Value place = kernel.advance(to, {ownRow * row + lane});
    if (isInOrder)
      return thread.storePair(sums[number], sums[number + 1], place);
    thread.addAtomically(sums[number], place);
    thread.addAtomically(sums[number + 1], kernel.advance(place, {1}));
  });
}

void QueryGradient::addUnits(Value to, Value kept, Value keys, int64_t units) {
  Values sums = begin(to, kept, units);
  for (int64_t first = 0; first < tile.countRows(); first += fragmentDepth) {
    SmallVector<Values, 2> turned;
    for (int64_t ofQueries = 0; ofQueries < share.blocks; ++ofQueries)
      turned.push_back(thread.loadMatrices(
          thread.advance(left, first * tile.getScoreShape().getBytes() +
                                   ofQueries * unitBytes),
          /*isTransposed=*/true));
    for (int64_t unit = 0; unit < units; ++unit) {
      Values right = thread.loadMatrices(
          thread.advance(keys, first * tile.head.getBytes() + unit * unitBytes),
          /*isTransposed=*/true);
      products.multiplyPair(turned, right, 2 * units, unit, sums);
    }
  }
  end(sums, to);
}

void QueryGradient::add(Value first, Value keys) {
  Value ownRow = thread.add(thread.mul(block, share.blocks * fragmentRows),
                            thread.div(thread.lane, 4));
  Value firstUnit = thread.mul(group, share.units);
  Value lane = thread.add(thread.mul(firstUnit, unitLanes),
                          thread.mul(thread.rem(thread.lane, 4), 2));
  Value query = thread.add(first, ownRow);
  Value to = kernel.advance(
      head, {kernel.mul(kernel.fromI32(query), row), kernel.fromI32(lane)});
  Value right = thread.advance(products.enterColumns({keys}, tile.head),
                               thread.mul(firstUnit, unitBytes));
  Value kept;
  if (tile.keepsQuerySums)
    kept =
        thread.advance(thread.getShared(thread.constant(tile.getQuerySums())),
                       thread.add(thread.mul(ownRow, tile.getQuerySumBytes()),
                                  thread.mul(lane, wordBytes)));
  // Where groups do not share the units evenly, the last ones have fewer.
  int64_t units = tile.head.padded / unitLanes;
  bool isEven = share.units * share.groups == units;
  int64_t step = isEven ? mostUnits / share.blocks : 1;
  for (int64_t unit = 0; unit < share.units; unit += step) {
    auto addOwn = [&] {
      addUnits(kernel.advance(to, {unit * unitLanes}),
               kept ? thread.advance(kept, unit * unitLanes * wordBytes)
                    : Value(),
               thread.advance(right, unit * unitBytes),
               std::min(step, share.units - unit));
    };
    if (isEven)
      addOwn();
    else
      kernel.when(
          thread.less(thread.add(firstUnit, unit), thread.constant(units)),
          addOwn);
  }
}
