//===- AllHeadsForwardKernel.cpp - Scores of all heads at once ------------===//

#include "codegen/CUDA/Sm80/AllHeadsForwardKernel.h"
#include "codegen/CUDA/Sm80/AllHeadsRows.h"
#include "codegen/CUDA/Sm80/AllHeadsThreadPoint.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentOutput.h"
#include "codegen/CUDA/Sm80/FragmentProducts.h"
#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "codegen/CUDA/Sm80/TileWalk.h"
#include "codegen/Tables/AllHeadsPayload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

int64_t AllHeadsForwardTile::countSums() const {
  int64_t columns = 0;
  for (const SharedRowShape &shape : ofHead.values)
    columns += shape.padded;
  return countRounds() * columns / 2;
}

namespace {
/// Writes one item at the insertion point of `kernel`.
class AllHeadsForward {
public:
  AllHeadsForward(ThreadBuilder &thread, ArgumentBlock &arguments,
                  const AllHeadsForwardOperands &launch);

  /// Of a tile of queries, by number, and of a split of the keys.
  void emit(Index batch, Index number, Index split);

private:
  /// What a head has of the tiles before.
  struct Sums {
    FragmentSoftmax::State softmax;
    Values output;
  };

  Value getRows(const SharedRowShape &shape, int64_t from,
                const WarpHead &head);
  void copyKeys(Index batch, Value first);
  void copyValues(Index batch, Value first);
  void emitProducts();
  void emitPayload(Value firstKey);
  Sums addTile(const WarpHead &head, const Sums &before, Value isVisible);
  void emitTile(Values &walked, SmallVectorImpl<Sums> &sums, Index batch);

  /// Those of all heads, one after the other.
  static Values flatten(ArrayRef<Sums> sums);
  static void unflatten(ValueRange all, MutableArrayRef<Sums> sums);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const AllHeadsForwardOperands &launch;
  const AllHeadsForwardTile &tile;
  const FragmentForm form;
  FragmentPoint point;
  AllHeadsThreadPoint payloadPoint;
  TileMask mask;
  Value keyCount; ///< i32
  TileWalk walk;
  FragmentProducts products;
  FragmentSoftmax softmax;
  FragmentOutput output;
  AllHeadsRows queries, keys;
  SmallVector<AllHeadsRows, 2> values;
  HeadScores scores;
  SmallVector<WarpHead> heads;
  Value firstQuery; ///< of the item (i32)
};
} // namespace

AllHeadsForward::AllHeadsForward(ThreadBuilder &thread,
                                 ArgumentBlock &arguments,
                                 const AllHeadsForwardOperands &launch)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(launch.ofAllHeads), form(launch.plan),
      point(thread, arguments, launch, launch.tile),
      payloadPoint(thread, arguments, launch.plan, launch.sites, launch.weights,
                   launch.packed),
      mask(kernel, arguments, point, launch.plan, launch.sites),
      keyCount(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      walk(thread, launch.plan, mask, launch.tile, keyCount),
      products(thread, launch.tile), softmax(thread, launch.tile, form),
      output(thread, arguments, point, launch),
      queries(thread, arguments, launch.query, launch.tile.query, tile.heads,
              launch.tile.countThreads()),
      keys(thread, arguments, launch.key, launch.tile.query, tile.heads,
           launch.tile.countThreads()),
      scores(thread, tile),
      heads(findHeadsOfWarp(thread, arguments, launch.sites, tile)) {
  for (auto [number, shape] : llvm::enumerate(launch.tile.values))
    values.emplace_back(thread, arguments, launch.values[number], shape,
                        tile.heads, launch.tile.countThreads());
  // All warps have the same queries.
  point.row = thread.div(thread.lane, 4);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The address of rows of keys or values that a head meets.
Value AllHeadsForward::getRows(const SharedRowShape &shape, int64_t from,
                               const WarpHead &head) {
  return thread.getShared(
      thread.add(thread.mul(head.ofKeys, tile.getRowBytes(shape)), from));
}

void AllHeadsForward::copyKeys(Index batch, Value first) {
  keys.copy(batch, first, thread.getShared(thread.constant(tile.getKeys())),
            arguments.getSize(launch.sites.key, 1));
}

void AllHeadsForward::copyValues(Index batch, Value first) {
  for (auto [number, rows] : llvm::enumerate(values))
    rows.copy(batch, first,
              thread.getShared(thread.constant(tile.getValues(number))),
              arguments.getSize(launch.sites.key, 1));
}

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//

void AllHeadsForward::emitProducts() {
  const SharedRowShape &shape = launch.tile.query;
  for (auto [number, head] : llvm::enumerate(heads)) {
    // Rows of the warp follow from its number.
    int64_t before = static_cast<int64_t>(number) * launch.tile.warps;
    const WarpHead &own = head;
    own.where(kernel, [&] {
      Values sums(launch.tile.countScores(), kernel.constantF32(0));
      products.multiply({thread.getShared(thread.constant(0)),
                         before * tile.getRowBytes(shape)},
                        {getRows(shape, tile.getKeys(), own)}, shape, sums);
      scores.store(sums, tile.getScores(), own.number);
    });
  }
}

/// At the query and the key of the thread, in place.
void AllHeadsForward::emitPayload(Value firstKey) {
  int64_t columns = launch.tile.columns;
  payloadPoint.standAt(
      thread.add(firstQuery, thread.div(thread.thread, columns)),
      thread.add(firstKey, thread.rem(thread.thread, columns)));
  Value own = thread.getShared(
      thread.add(thread.mul(thread.thread, wordBytes), tile.getScores()));
  auto getAddress = [&](int64_t head) {
    return thread.advance(own, head * tile.getScoreBytes());
  };
  Values given;
  for (int64_t head = 0; head < tile.heads; ++head)
    given.push_back(kernel.mulF(thread.loadShared(kernel.f32, getAddress(head)),
                                kernel.constantF32(form.productFactor)));
  pos::ScoreOp score = launch.plan.score;
  Block &body = score.getBody().front();
  AllHeadsEmitter emitter(kernel.builder, payloadPoint, /*keepsUnits=*/false);
  emitter.emit(body, given);
  Values results = emitter.getAll(body.getTerminator()->getOperand(0));
  for (auto [head, result] : llvm::enumerate(results))
    thread.storeShared(
        kernel.mulF(result, kernel.constantF32(form.payloadFactor)),
        getAddress(static_cast<int64_t>(head)));
  for (Value value : given)
    allowErrorsOf(value);
}

AllHeadsForward::Sums AllHeadsForward::addTile(const WarpHead &head,
                                               const Sums &before,
                                               Value isVisible) {
  Sums sums = before;
  Values given = scores.load(tile.getScores(), head.number);
  given = kernel.choose(
      isVisible, ValueRange(given).getTypes(), [&] { return given; },
      [&] {
        return hideScores(kernel, point, launch.plan, launch.tile, given);
      });
  softmax.update(sums.softmax, given, /*addend=*/{},
                 [&](const FragmentSoftmax::Scaling &scaling) {
                   output.scale(sums.output, scaling);
                 });
  for (auto [value, shape] : llvm::enumerate(launch.tile.values))
    products.addRows(given, {getRows(shape, tile.getValues(value), head)},
                     shape, output.getSums(sums.output, value));
  return sums;
}

void AllHeadsForward::emitTile(Values &walked, SmallVectorImpl<Sums> &sums,
                               Index batch) {
  Value firstKey = walk.getFirstColumn(walked);
  Value isVisible = walk.isVisible(walked);
  // Keys are there, and nobody reads scores and values of the tile before.
  thread.waitForCopies(0);
  thread.synchronizeBlock();
  copyValues(batch, firstKey);
  thread.commitCopies();
  emitProducts();
  thread.synchronizeBlock();
  Values next = walk.advance(walked);
  kernel.when(walk.isThere(next),
              [&] { copyKeys(batch, walk.getFirstColumn(next)); });
  thread.commitCopies();
  emitPayload(firstKey);
  thread.waitForCopies(1);
  thread.synchronizeBlock();
  point.enterTile(firstKey, thread.getShared(thread.constant(0)));
  for (auto [head, own] : llvm::zip_equal(heads, sums)) {
    point.enterHead(batch, kernel.fromI32(head.number));
    Values after =
        head.choose(kernel, flatten(own), [&, &head = head, &own = own] {
          return flatten(addTile(head, own, isVisible));
        });
    unflatten(after, own);
  }
  walked = next;
}

Values AllHeadsForward::flatten(ArrayRef<Sums> sums) {
  Values all;
  for (const Sums &own : sums)
    for (ArrayRef<Value> part :
         {ArrayRef<Value>(own.softmax.maxima),
          ArrayRef<Value>(own.softmax.sums), ArrayRef<Value>(own.output)})
      llvm::append_range(all, part);
  return all;
}

void AllHeadsForward::unflatten(ValueRange all, MutableArrayRef<Sums> sums) {
  for (Sums &own : sums)
    for (MutableArrayRef<Value> part :
         {MutableArrayRef<Value>(own.softmax.maxima),
          MutableArrayRef<Value>(own.softmax.sums),
          MutableArrayRef<Value>(own.output)}) {
      llvm::copy(all.take_front(part.size()), part.begin());
      all = all.drop_front(part.size());
    }
}

//===----------------------------------------------------------------------===//
// An item
//===----------------------------------------------------------------------===//

void AllHeadsForward::emit(Index batch, Index number, Index split) {
  Index first = kernel.mul(number, fragmentRows);
  firstQuery = kernel.toI32(first);
  payloadPoint.enterHead(batch, Index(0));
  point.enterRows(batch, Index(0), firstQuery);
  // Nobody reads the rows of the item before any more.
  thread.synchronizeBlock();
  queries.copy(batch, firstQuery, thread.getShared(thread.constant(0)),
               tile.heads);
  Index count =
      kernel.min(fragmentRows,
                 kernel.sub(arguments.getSize(launch.sites.query, 2), first));
  TileSide side = mask.enter(pos::Side::query, first, count, fragmentRows);
  Index tiles = kernel.ceilDiv(arguments.getSize(launch.sites.key, 2),
                               launch.tile.columns);
  Index each = kernel.ceilDiv(tiles, arguments.getScalar(launch.splits));
  Index begin = kernel.min(kernel.mul(split, each), tiles);
  Index end = kernel.min(kernel.add(begin, each), tiles);
  Values walked =
      walk.advance(walk.begin(side, kernel.toI32(begin), kernel.toI32(end)));
  kernel.when(walk.isThere(walked),
              [&] { copyKeys(batch, walk.getFirstColumn(walked)); });
  thread.commitCopies();
  SmallVector<Sums> sums(heads.size());
  for (Sums &own : sums)
    own = {softmax.begin(), Values(output.countSums(), kernel.constantF32(0))};
  auto flattenAll = [&](ValueRange state) {
    Values all(state);
    llvm::append_range(all, flatten(sums));
    return all;
  };
  size_t states = walked.size();
  Values last = thread.loopWhile(
      flattenAll(walked),
      [&](ValueRange all) { return walk.isThere(all.take_front(states)); },
      [&](ValueRange all) {
        Values state(all.take_front(states));
        unflatten(all.drop_front(states), sums);
        emitTile(state, sums, batch);
        return flattenAll(state);
      });
  unflatten(ValueRange(last).drop_front(states), sums);
  // Without a tile the queries are still to come.
  thread.waitForCopies(0);
  for (auto [head, own] : llvm::zip_equal(heads, sums)) {
    Index of = kernel.fromI32(head.number);
    point.enterHead(batch, of);
    output.enterHead(head.exists ? head.exists : kernel.constantI1(true));
    SmallVector<FragmentSoftmax::Row> rows = softmax.finish(own.softmax);
    kernel.when(
        kernel.equal(arguments.getScalar(launch.splits), 1),
        [&] { output.store(batch, of, own.output, rows); },
        [&] { output.storeSplit(split, batch, of, own.output, rows); });
  }
}

void codegen::createAllHeadsFragmentForward(
    const Lowering &lowering, StringRef suffix,
    const AllHeadsForwardOperands &launch) {
  auto countTiles = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(arguments.getSize(launch.sites.query, 2),
                          fragmentRows);
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel,
                     {asShort(kernel, countTiles(kernel, arguments)),
                      asShort(kernel, arguments.getSize(launch.sites.query, 0)),
                      asShort(kernel, arguments.getScalar(launch.splits))});
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    KernelBuilder &kernel = thread.kernel;
    AllHeadsForward emitter(thread, arguments, launch);
    Index tiles = countTiles(kernel, arguments);
    items.forEach([&](const Item &item) {
      // The last tile first: under a causal mask it is the longest.
      Index number = kernel.sub(kernel.sub(tiles, 1), item[0]);
      emitter.emit(item[1], number, item[2]);
    });
  };
  const AllHeadsForwardTile &tile = launch.ofAllHeads;
  createBlockKernel(
      lowering, suffix, launch.layout, tile.getBlock(),
      {items, run, tile.countRounds() * tile.ofHead.countScores()});
}
