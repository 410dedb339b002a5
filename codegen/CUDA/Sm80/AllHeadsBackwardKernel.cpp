//===- AllHeadsBackwardKernel.cpp - Gradients of all heads' scores --------===//

#include "codegen/CUDA/Sm80/AllHeadsBackwardKernel.h"
#include "codegen/CUDA/Sm80/AllHeadsGradientPoint.h"
#include "codegen/CUDA/Sm80/AllHeadsRows.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentRows.h"
#include "codegen/CUDA/Sm80/FragmentScores.h"
#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "codegen/CUDA/Sm80/TileWalk.h"
#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Bytes of 8 elements, and of 16.
static constexpr int64_t chunkBytes = 16, unitBytes = 32;

namespace {
/// Writes one item at the insertion point of `kernel`.
class AllHeadsBackward {
public:
  AllHeadsBackward(ThreadBuilder &thread, ArgumentBlock &arguments,
                   const AllHeadsBackwardOperands &launch);

  /// Before the first item.
  void clearSums() { point.clearShared(); }
  void emit(Index batch, Index chunk, Index part);

private:
  /// dK and dV of each round, then what the gradients of payloads carry.
  struct Carried {
    Values walk;
    Value stage; ///< bytes (i32)
    SmallVector<Values> rows;
    Values payload;

    Values flatten() const;
    Carried unflatten(ValueRange all) const;
  };

  Value getRows(const SharedRowShape &shape, int64_t from, Value head);
  Value getStage(Value stage, int64_t bytes);
  void copyKeys();
  void copyQueries(ValueRange walked, Value stage);
  void emitProducts(Value stage);
  Value emitSeen(Value isVisible);
  Value getChunk(Value query, Value chunkOfRow);
  void storeRounded(Value number, int64_t from, int64_t head);
  void emitPayload(Value isVisible);
  Values loadOperand(int64_t from, const WarpHead &head, pos::Side rows);
  Values multiplyRows(ValueRange left, Value rows, const SharedRowShape &shape,
                      ValueRange sums);
  void addQueryGradient(const WarpHead &head);
  Values addRows(const WarpHead &head, Value stage, ValueRange sums);
  Carried emitTile(Carried carried);
  void emitKeys();
  void storeRows(const WarpHead &head, ValueRange sums);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const AllHeadsBackwardOperands &launch;
  const AllHeadsBackwardTile &tile;
  const FragmentForm form;
  FragmentProducts products;
  AllHeadsGradientPoint point;
  TileMask mask;
  Value queryLength, keyLength; ///< i32
  TileWalk walk;
  AllHeadsRows queries, keys;
  SmallVector<AllHeadsRows, 2> outputGradients, values;
  HeadScores scores;
  SmallVector<WarpHead> heads;
  Index group; ///< heads of queries per head of keys

  // Where the emitted code stands.
  Index batch = 0, chunk = 0, part = 0, sum = 0;
  Value firstQuery, firstKey; ///< of the tile (i32)
};
} // namespace

AllHeadsBackward::AllHeadsBackward(ThreadBuilder &thread,
                                   ArgumentBlock &arguments,
                                   const AllHeadsBackwardOperands &launch)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(launch.tile), form(launch.plan),
      products(thread, tile.ofHead), point(thread, arguments, launch, products),
      mask(kernel, arguments, point, launch.plan, launch.sites),
      queryLength(kernel.toI32(arguments.getSize(launch.sites.query, 2))),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      walk(thread, launch.plan, mask, tile.ofHead, queryLength),
      queries(thread, arguments, launch.query, tile.ofHead.query, tile.heads,
              tile.ofHead.countThreads()),
      keys(thread, arguments, launch.key, tile.ofHead.query, tile.heads,
           tile.ofHead.countThreads()),
      scores(thread, tile),
      heads(findHeadsOfWarp(thread, arguments, launch.sites, tile)),
      group(kernel.div(tile.heads, arguments.getSize(launch.sites.key, 1))) {
  for (auto [number, shape] : llvm::enumerate(tile.ofHead.values)) {
    outputGradients.emplace_back(thread, arguments,
                                 launch.outputGradients[number], shape,
                                 tile.heads, tile.ofHead.countThreads());
    values.emplace_back(thread, arguments, launch.values[number], shape,
                        tile.heads, tile.ofHead.countThreads());
  }
}

Values AllHeadsBackward::Carried::flatten() const {
  Values all(walk);
  all.push_back(stage);
  for (const Values &own : rows)
    llvm::append_range(all, own);
  llvm::append_range(all, payload);
  return all;
}

AllHeadsBackward::Carried
AllHeadsBackward::Carried::unflatten(ValueRange all) const {
  Carried found = *this;
  auto take = [&](MutableArrayRef<Value> to) {
    llvm::copy(all.take_front(to.size()), to.begin());
    all = all.drop_front(to.size());
  };
  take(found.walk);
  take(found.stage);
  for (Values &own : found.rows)
    take(own);
  take(found.payload);
  return found;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The address of a head's rows, of those that begin `from` bytes behind the
/// start.
Value AllHeadsBackward::getRows(const SharedRowShape &shape, int64_t from,
                                Value head) {
  return thread.getShared(
      thread.add(thread.mul(head, tile.getRowBytes(shape)), from));
}

Value AllHeadsBackward::getStage(Value stage, int64_t bytes) {
  return thread.advance(thread.getShared(stage), tile.getStage() + bytes);
}

void AllHeadsBackward::copyKeys() {
  Index count = arguments.getSize(launch.sites.key, 1);
  keys.copy(batch, firstKey, thread.getShared(thread.constant(0)), count);
  for (auto [number, rows] : llvm::enumerate(values))
    rows.copy(batch, firstKey,
              thread.getShared(thread.constant(tile.getValues(number))), count);
}

void AllHeadsBackward::copyQueries(ValueRange walked, Value stage) {
  Value first = walk.getFirstColumn(walked);
  queries.copy(batch, first, getStage(stage, 0), tile.heads);
  for (auto [number, rows] : llvm::enumerate(outputGradients))
    rows.copy(batch, first, getStage(stage, tile.getOutputGradients(number)),
              tile.heads);
}

//===----------------------------------------------------------------------===//
// S and dP
//===----------------------------------------------------------------------===//

void AllHeadsBackward::emitProducts(Value stage) {
  const ForwardTile &ofHead = tile.ofHead;
  for (auto [round, head] : llvm::enumerate(heads)) {
    // Rows of the warp follow from its number.
    int64_t before = static_cast<int64_t>(round) * ofHead.warps;
    const WarpHead &own = head;
    own.where(kernel, [&] {
      Values zeros(ofHead.countScores(), kernel.constantF32(0));
      Values sums = zeros, gradients = zeros;
      products.multiply(
          {getStage(stage, before * tile.getRowBytes(ofHead.query))},
          {getRows(ofHead.query, 0, own.ofKeys)}, ofHead.query, sums);
      scores.store(sums, tile.getScores(), own.number);
      for (auto [number, shape] : llvm::enumerate(ofHead.values))
        products.multiply(
            {getStage(stage, tile.getOutputGradients(number) +
                                 before * tile.getRowBytes(shape))},
            {getRows(shape, tile.getValues(number), own.ofKeys)}, shape,
            gradients);
      scores.store(gradients, tile.getGradients(), own.number);
    });
  }
}

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

/// Whether the query at the thread's point sees the key (i1).
Value AllHeadsBackward::emitSeen(Value isVisible) {
  auto ask = [&]() -> Values {
    Value exist = kernel.both(
        thread.less(thread.add(firstQuery, point.query), queryLength),
        thread.less(thread.add(firstKey, point.key), keyLength));
    pos::MaskOp op = launch.plan.mask;
    if (!op)
      return {exist};
    return {kernel.both(
        exist, callPayload(kernel, op.getBody().front(), {}, point).front())};
  };
  return kernel
      .choose(
          isVisible, kernel.i1, [&]() -> Values { return {isVisible}; }, ask)
      .front();
}

/// The place of a chunk of a row of P or dS, by number (i32).
Value AllHeadsBackward::getChunk(Value query, Value chunkOfRow) {
  Value isTurned = thread.rem(thread.div(query, tile.turnedRows), 2);
  return thread.rem(thread.add(chunkOfRow, isTurned), 2);
}

/// At the thread's point of a head, in the rows' type.
void AllHeadsBackward::storeRounded(Value number, int64_t from, int64_t head) {
  Value chunkOfRow = getChunk(point.query, thread.div(point.key, 8));
  Value own = thread.getShared(
      thread.add(thread.add(thread.mul(point.query, tile.roundedRowBytes),
                            thread.mul(chunkOfRow, chunkBytes)),
                 thread.mul(thread.rem(point.key, 8), 2)));
  storeElement(thread, number,
               thread.advance(own, from + head * tile.roundedBytes));
}

void AllHeadsBackward::emitPayload(Value isVisible) {
  Value query = thread.add(firstQuery, point.query);
  point.standAt(query, thread.add(firstKey, point.key));
  Value isSeen = emitSeen(isVisible);
  Value zero = kernel.constantF32(0);
  Value ownScore = thread.getShared(thread.mul(
      thread.add(thread.mul(point.query, tile.ofHead.columns), point.key),
      wordBytes));
  auto loadAll = [&](int64_t from) {
    Values all;
    for (int64_t head = 0; head < tile.heads; ++head)
      all.push_back(thread.loadShared(
          kernel.f32,
          thread.advance(ownScore, from + head * tile.getScoreBytes())));
    return all;
  };
  Values given = loadAll(tile.getScores());
  Values gradients = loadAll(tile.getGradients());
  // What is kept of the payload takes their place.
  thread.synchronizeBlock();
  for (Value &value : given)
    value = kernel.selectF(
        isSeen, kernel.mulF(value, kernel.constantF32(form.productFactor)),
        zero);
  auto getStatistic = [&](Statistic statistic) {
    unsigned tensor = launch.statistics[static_cast<int64_t>(statistic)];
    Value first =
        arguments.getAddress(tensor, {batch, 0, kernel.fromI32(query)});
    Index stride = arguments.getStride(tensor, 1);
    return [=, this](int64_t head) {
      return kernel.loadF32(first, {kernel.mul(stride, head)});
    };
  };
  auto shift = getStatistic(Statistic::NegativeShift);
  auto inverse = getStatistic(Statistic::InverseSum);
  auto delta = getStatistic(Statistic::NegativeDelta);

  pos::ScoreOp score = launch.plan.score;
  Block &body = score.getBody().front();
  Values seeds;
  // By the operations of the forward: see FragmentGradients.cpp.
  auto emitProbabilities = [&](AllHeadsEmitter &emitter) {
    Values results = emitter.getAll(body.getTerminator()->getOperand(0));
    for (auto [number, result] : llvm::enumerate(results)) {
      auto head = static_cast<int64_t>(number);
      // Rounded like that of the forward, which lies in shared memory.
      Value inBase2 =
          arith::MulFOp::create(kernel.builder, kernel.loc, result,
                                kernel.constantF32(form.payloadFactor));
      Value exponent = kernel.addF(inBase2, shift(head));
      Value p = kernel.mulF(thread.exp2(exponent), inverse(head));
      p = kernel.selectF(isSeen, p, zero);
      storeRounded(p, tile.getProbabilities(), head);
      Value gradient =
          kernel.mulF(p, kernel.addF(gradients[head], delta(head)));
      // What stands at hidden points reaches no gradient, whatever it is.
      seeds.push_back(kernel.selectF(isSeen, gradient, zero));
    }
  };
  auto getSeeds = [&](Index first, int64_t count) {
    return Values(ArrayRef<Value>(seeds).slice(first.getConstant(), count));
  };
  Values pulled = emitAllHeadsPullback(kernel.builder, body, given,
                                       emitProbabilities, getSeeds, point);
  for (auto [number, gradient] : llvm::enumerate(pulled))
    storeRounded(gradient, tile.getScoreGradients(),
                 static_cast<int64_t>(number));
  for (Value value : given)
    allowErrorsOf(value);
  for (Value value : seeds)
    allowErrorsOf(value);
}

//===----------------------------------------------------------------------===//
// dV, dK and dQ
//===----------------------------------------------------------------------===//

/// P or dS of a head as a left operand, whose rows are queries or keys.
Values AllHeadsBackward::loadOperand(int64_t from, const WarpHead &head,
                                     pos::Side rows) {
  Value lane = thread.lane;
  Value half = thread.rem(thread.div(lane, 8), 2), high = thread.div(lane, 16);
  bool areKeys = rows == pos::Side::key;
  // Rows 0-7 and 8-15 of columns 0-7, then of 8-15; a load turns those of keys.
  Value query =
      thread.add(thread.rem(lane, 8), thread.mul(areKeys ? high : half, 8));
  Value chunkOfRow = getChunk(query, areKeys ? half : high);
  Value own = thread.add(thread.mul(query, tile.roundedRowBytes),
                         thread.mul(chunkOfRow, chunkBytes));
  Value ofHead = thread.mul(head.number, tile.roundedBytes);
  return thread.loadMatrices(
      thread.getShared(thread.add(thread.add(own, ofHead), from)), areKeys);
}

/// Sums of rows plus a left operand times 16 rows at an address.
Values AllHeadsBackward::multiplyRows(ValueRange left, Value rows,
                                      const SharedRowShape &shape,
                                      ValueRange sums) {
  Values added(sums);
  Values operand(left);
  Value right = products.enterColumns({rows}, shape);
  int64_t columns = shape.padded / fragmentColumns;
  for (int64_t pair = 0; pair < columns / 2; ++pair)
    products.multiplyPair(
        {operand},
        thread.loadMatrices(thread.advance(right, pair * unitBytes),
                            /*isTransposed=*/true),
        columns, pair, added);
  return added;
}

/// dK, then dV of each value.
Values AllHeadsBackward::addRows(const WarpHead &head, Value stage,
                                 ValueRange sums) {
  auto getOfHead = [&](const SharedRowShape &shape, int64_t bytes) {
    return thread.advance(getStage(stage, bytes),
                          thread.mul(head.number, tile.getRowBytes(shape)));
  };
  auto take = [&](const SharedRowShape &shape) {
    ValueRange own = sums.take_front(shape.padded / 2);
    sums = sums.drop_front(own.size());
    return own;
  };
  const SharedRowShape &ofQuery = tile.ofHead.query;
  Values gradients =
      loadOperand(tile.getScoreGradients(), head, pos::Side::key);
  Values all =
      multiplyRows(gradients, getOfHead(ofQuery, 0), ofQuery, take(ofQuery));
  Values probabilities =
      loadOperand(tile.getProbabilities(), head, pos::Side::key);
  for (auto [number, shape] : llvm::enumerate(tile.ofHead.values))
    llvm::append_range(
        all, multiplyRows(probabilities,
                          getOfHead(shape, tile.getOutputGradients(number)),
                          shape, take(shape)));
  return all;
}

void AllHeadsBackward::addQueryGradient(const WarpHead &head) {
  const SharedRowShape &shape = tile.ofHead.query;
  int64_t row = launch.layout.tensors[launch.queryGradient].getDimSize(4);
  Value query = thread.add(firstQuery, thread.div(thread.lane, 4));
  Value lane = thread.mul(thread.rem(thread.lane, 4), 2);
  Value to = arguments.getAddress(
      launch.queryGradient,
      {chunk, batch, kernel.fromI32(head.number), kernel.fromI32(query)});
  to = kernel.advance(to, {kernel.fromI32(lane)});
  Values sums(shape.padded / 2);
  auto forPairs = [&](function_ref<void(unsigned, Value)> body) {
    for (int64_t columns = 0; columns < shape.padded / fragmentColumns;
         ++columns)
      for (int64_t half : {0, 1})
        body(columns * fragmentElements + 2 * half,
             kernel.advance(to, {half * (fragmentRows / 2) * row +
                                 columns * fragmentColumns}));
  };
  forPairs([&](unsigned at, Value place) {
    std::tie(sums[at], sums[at + 1]) = thread.loadPair(place);
  });
  Values left = loadOperand(tile.getScoreGradients(), head, pos::Side::query);
  sums = multiplyRows(left, getRows(shape, 0, head.ofKeys), shape, sums);
  forPairs([&](unsigned at, Value place) {
    thread.storePair(sums[at], sums[at + 1], place);
  });
}

AllHeadsBackward::Carried AllHeadsBackward::emitTile(Carried carried) {
  Value isVisible = walk.isVisible(carried.walk);
  firstQuery = walk.getFirstColumn(carried.walk);
  Values next = walk.advance(carried.walk);
  Value stage = carried.stage;
  // The tile is there, and nobody reads the one before any more.
  thread.waitForCopies(0);
  thread.synchronizeBlock();
  auto copyNext = [&] {
    kernel.when(walk.isThere(next), [&] { copyQueries(next, carried.stage); });
    thread.commitCopies();
  };
  if (tile.stages > 1) {
    carried.stage =
        thread.sub(thread.constant(tile.getStageBytes()), carried.stage);
    copyNext();
  }
  emitProducts(stage);
  thread.synchronizeBlock();
  emitPayload(isVisible);
  thread.synchronizeBlock();
  for (auto [head, own] : llvm::zip_equal(heads, carried.rows)) {
    own = head.choose(kernel, own, [&, &head = head, &own = own] {
      addQueryGradient(head);
      return addRows(head, stage, own);
    });
  }
  point.addTile(firstQuery, firstKey, sum, carried.payload);
  if (tile.stages == 1) {
    thread.synchronizeBlock();
    copyNext();
  }
  carried.walk = next;
  return carried;
}

//===----------------------------------------------------------------------===//
// An item
//===----------------------------------------------------------------------===//

/// In the part of the sums that the head has of its group's.
void AllHeadsBackward::storeRows(const WarpHead &head, ValueRange sums) {
  Index number = kernel.fromI32(head.number);
  Index ofPart = kernel.add(kernel.mul(part, group), kernel.rem(number, group));
  Value row = thread.div(thread.lane, 4);
  Value column = thread.mul(thread.rem(thread.lane, 4), 2);
  auto store = [&](const SharedRowShape &shape, unsigned tensor,
                   double factor) {
    FragmentRows rows(thread, /*blocks=*/1, shape, column);
    ValueRange own = sums.take_front(rows.countSums());
    sums = sums.drop_front(own.size());
    for (int64_t half = 0; half < rows.countRows(); ++half) {
      Value key =
          thread.add(thread.add(firstKey, row), half * (fragmentRows / 2));
      rows.store(own, half,
                 arguments.getAddress(tensor, {ofPart, batch,
                                               kernel.fromI32(head.ofKeys),
                                               kernel.fromI32(key)}),
                 kernel.f32, [&](Value value) {
                   return kernel.mulF(value, kernel.constantF32(factor));
                 });
    }
  };
  store(tile.ofHead.query, launch.keyGradient, launch.plan.scale);
  for (auto [value, shape] : llvm::enumerate(tile.ofHead.values))
    store(shape, launch.valueGradients[value], 1.0);
}

/// The tile of keys from `firstKey` on.
void AllHeadsBackward::emitKeys() {
  Index first = kernel.fromI32(firstKey);
  Index count =
      kernel.min(fragmentRows, kernel.sub(kernel.fromI32(keyLength), first));
  walk.areRowsWhole =
      thread.less(thread.add(firstKey, fragmentRows - 1), keyLength);
  TileSide side = mask.enter(pos::Side::key, first, count, fragmentRows);
  Index all = kernel.ceilDiv(kernel.fromI32(queryLength), tile.ofHead.columns);
  // Parts take turns: under a causal mask the last queries see the most keys.
  Index parts = arguments.getScalar(launch.parts);
  walk.turns = kernel.toI32(parts);
  walk.turn = kernel.toI32(part);
  Index own = kernel.ceilDiv(kernel.max(kernel.sub(all, part), 0), parts);
  // Nobody reads the rows of the tile before any more.
  thread.synchronizeBlock();
  copyKeys();
  Carried start;
  start.walk =
      walk.advance(walk.begin(side, thread.constant(0), kernel.toI32(own)));
  start.stage = thread.constant(0);
  kernel.when(walk.isThere(start.walk),
              [&] { copyQueries(start.walk, start.stage); });
  thread.commitCopies();
  start.rows.assign(heads.size(), Values(tile.countSums() / tile.countRounds(),
                                         kernel.constantF32(0)));
  start.payload = point.begin();
  Values last = thread.loopWhile(
      start.flatten(),
      [&](ValueRange all) { return walk.isThere(start.unflatten(all).walk); },
      [&](ValueRange all) { return emitTile(start.unflatten(all)).flatten(); });
  Carried found = start.unflatten(last);
  // Without a tile the keys are still to come.
  thread.waitForCopies(0);
  for (auto [head, own] : llvm::zip_equal(heads, found.rows)) {
    const WarpHead &of = head;
    ValueRange rows = own;
    of.where(kernel, [&] { storeRows(of, rows); });
  }
  point.finish(sum, found.payload);
}

void AllHeadsBackward::emit(Index ofBatch, Index ofChunk, Index ofPart) {
  batch = ofBatch;
  chunk = ofChunk;
  part = ofPart;
  Index chunks = arguments.getScalar(launch.chunks);
  sum = kernel.add(kernel.mul(chunk, arguments.getScalar(launch.parts)), part);
  static_cast<TilePoint &>(point).enterHead(batch, Index(0));
  Value end = kernel.toI32(
      kernel.ceilDiv(kernel.fromI32(keyLength), tile.ofHead.columns));
  Value step = kernel.toI32(chunks);
  thread.loopWhile(
      kernel.toI32(chunk),
      [&](ValueRange at) { return thread.less(at[0], end); },
      [&](ValueRange at) -> Values {
        firstKey = thread.mul(at[0], tile.ofHead.columns);
        emitKeys();
        return {thread.add(at[0], step)};
      });
}

void codegen::createAllHeadsFragmentBackward(
    const Lowering &lowering, StringRef suffix,
    const AllHeadsBackwardOperands &launch) {
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    auto scalar = [&](unsigned number) {
      return asShort(kernel, arguments.getScalar(number));
    };
    return ItemSpace(kernel,
                     {asShort(kernel, arguments.getSize(launch.sites.query, 0)),
                      scalar(launch.chunks), scalar(launch.parts)});
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    AllHeadsBackward emitter(thread, arguments, launch);
    emitter.clearSums();
    items.forEach(
        [&](const Item &item) { emitter.emit(item[0], item[1], item[2]); });
  };
  const AllHeadsBackwardTile &tile = launch.tile;
  createBlockKernel(
      lowering, suffix, launch.layout, tile.getBlock(),
      {items, run, tile.countRounds() * tile.ofHead.countScores()});
}
