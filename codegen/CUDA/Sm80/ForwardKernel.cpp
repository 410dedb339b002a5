//===- ForwardKernel.cpp - The forward on tensor cores --------------------===//

#include "codegen/CUDA/Sm80/ForwardKernel.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentOutput.h"
#include "codegen/CUDA/Sm80/FragmentProducts.h"
#include "codegen/CUDA/Sm80/SharedRows.h"
#include "codegen/CUDA/Sm80/TileWalk.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const ForwardOperands &launch) {
  unsigned query = launch.sites.query;
  return ItemSpace(
      kernel,
      {kernel.mul(arguments.getSize(query, 0), arguments.getSize(query, 1)),
       kernel.ceilDiv(arguments.getSize(query, 2), launch.tile.countRows()),
       arguments.getScalar(launch.splits)});
}

namespace {
/// Writes one item at the insertion point of `kernel`.
class FragmentForward {
public:
  /// `lanes`: of the vectors that tables are written in.
  FragmentForward(ThreadBuilder &thread, ArgumentBlock &arguments,
                  const ForwardOperands &launch, int64_t lanes)
      : thread(thread), kernel(thread.kernel), arguments(arguments),
        launch(launch), tile(launch.tile),
        point(thread, arguments, launch, launch.tile),
        mask(kernel, arguments, point, launch.plan, launch.sites),
        keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
        walk(thread, launch.plan, mask, tile, keyLength),
        queries(getRows(launch.query, tile.query)),
        keys(getRows(launch.key, tile.query)), products(thread, tile),
        hinges(thread, arguments, point, launch, lanes),
        scores(kernel, arguments, point, hinges, launch, tile),
        softmax(thread, tile, scores.getForm()),
        output(thread, arguments, point, launch) {
    for (auto [number, shape] : llvm::enumerate(tile.values))
      values.push_back(getRows(launch.values[number], shape));
  }

  /// `outer` counts heads of all elements of the batch, `number` the tiles of
  /// queries of a head.
  void emit(Index outer, Index number, Index split);

private:
  /// What one tile of keys leaves for the next.
  struct Carried {
    Values walk;
    Value stage; ///< number of that of the tile at hand (i32)
    FragmentSoftmax::State softmax;
    Values output;
  };

  SharedRows getRows(unsigned tensor, SharedRowShape shape) {
    return SharedRows(thread, arguments, tensor, shape, tile.countThreads());
  }
  static Values flatten(const Carried &carried);
  static Carried unflatten(ValueRange values, const Carried &like);
  Value getFirstKey(ValueRange state) {
    return thread.mul(TileWalk::getTile(state), tile.columns);
  }
  /// Whether all keys of the tile exist (i1).
  Value isWholeTile(ValueRange state) {
    return thread.less(thread.add(getFirstKey(state), tile.columns - 1),
                       keyLength);
  }
  Value getStage(Value number) {
    return thread.getShared(
        thread.add(thread.mul(number, tile.getStageBytes()), tile.getStage()));
  }
  Value getWindows(Value stage) {
    return thread.advance(stage, tile.getWindows());
  }
  std::pair<Value, Value> getTiles(Index split);
  void enterHead(Index outer, Value firstQuery);
  void copyTile(ValueRange state, Value stage);
  Carried emitTile(Carried carried);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardOperands &launch;
  const ForwardTile &tile;
  FragmentPoint point;
  TileMask mask;
  Value keyLength;
  TileWalk walk;
  SharedRows queries, keys;
  SmallVector<SharedRows, 2> values;
  FragmentProducts products;
  FragmentHinges hinges;
  FragmentScores scores;
  FragmentSoftmax softmax;
  FragmentOutput output;
};
} // namespace

Values FragmentForward::flatten(const Carried &carried) {
  Values all(carried.walk);
  all.push_back(carried.stage);
  llvm::append_range(all, carried.softmax.maxima);
  llvm::append_range(all, carried.softmax.sums);
  llvm::append_range(all, carried.output);
  return all;
}

FragmentForward::Carried FragmentForward::unflatten(ValueRange all,
                                                    const Carried &like) {
  auto take = [&](size_t count) {
    Values taken(all.take_front(count));
    all = all.drop_front(count);
    return taken;
  };
  Carried carried;
  carried.walk = take(like.walk.size());
  carried.stage = take(1).front();
  carried.softmax.maxima = take(like.softmax.maxima.size());
  carried.softmax.sums = take(like.softmax.sums.size());
  carried.output = take(like.output.size());
  return carried;
}

void FragmentForward::enterHead(Index outer, Value firstQuery) {
  Index heads = arguments.getSize(launch.sites.query, 1);
  Index keyHeads = arguments.getSize(launch.sites.key, 1);
  Index batch = kernel.div(outer, heads), head = kernel.rem(outer, heads);
  Index keyHead = kernel.div(head, kernel.div(heads, keyHeads));
  point.enterRows(batch, head, firstQuery);
  queries.enterHead(batch, head);
  keys.enterHead(batch, keyHead);
  for (SharedRows &rows : values)
    rows.enterHead(batch, keyHead);
}

/// Most tiles are whole, and copied without asking what exists of them.
void FragmentForward::copyTile(ValueRange state, Value number) {
  Value first = getFirstKey(state), stage = getStage(number);
  auto getAddress = [&](unsigned value) {
    return thread.advance(stage, tile.getValues(value));
  };
  Value isWhole = kernel.both(isWholeTile(state), keys.getAligned());
  for (const SharedRows &rows : values)
    isWhole = kernel.both(isWhole, rows.getAligned());
  kernel.when(
      isWhole,
      [&] {
        keys.copyWhole(first, tile.columns, stage);
        for (auto [value, rows] : llvm::enumerate(values))
          rows.copyWhole(first, tile.columns, getAddress(value));
        point.copyTables(first, getWindows(stage), /*isWhole=*/true);
      },
      [&] {
        keys.copy(first, tile.columns, stage);
        for (auto [value, rows] : llvm::enumerate(values))
          rows.copy(first, tile.columns, getAddress(value));
        point.copyTables(first, getWindows(stage), /*isWhole=*/false);
      });
}

FragmentForward::Carried FragmentForward::emitTile(Carried carried) {
  Values next = walk.advance(carried.walk);
  Value other = thread.sub(thread.constant(1), carried.stage);
  // The tile is there, and nobody reads the stage of the one before any more.
  thread.waitForCopies(0);
  thread.synchronizeBlock();
  kernel.when(walk.isThere(next), [&] { copyTile(next, other); });
  thread.commitCopies();

  Value first = getFirstKey(carried.walk), stage = getStage(carried.stage);
  point.enterTile(first, getWindows(stage));
  hinges.leaveTile();
  Values tileScores(tile.countScores(), kernel.constantF32(0));
  products.multiply({thread.getShared(thread.constant(0))}, {stage}, tile.query,
                    tileScores);
  tileScores =
      scores.emit(tileScores, kernel.both(isWholeTile(carried.walk),
                                          walk.isVisible(carried.walk)));
  Values factors = softmax.update(carried.softmax, tileScores);
  output.scale(carried.output, factors);
  for (unsigned value = 0; value < values.size(); ++value)
    products.addRows(tileScores, {stage, tile.getValues(value)},
                     tile.values[value], output.getSums(carried.output, value));
  carried.walk = next;
  carried.stage = other;
  return carried;
}

/// The tiles of keys of a split.
std::pair<Value, Value> FragmentForward::getTiles(Index split) {
  Index tiles =
      kernel.ceilDiv(arguments.getSize(launch.sites.key, 2), tile.columns);
  Index each = kernel.ceilDiv(tiles, arguments.getScalar(launch.splits));
  Index first = kernel.min(kernel.mul(split, each), tiles);
  return {kernel.toI32(first),
          kernel.toI32(kernel.min(kernel.add(first, each), tiles))};
}

void FragmentForward::emit(Index outer, Index number, Index split) {
  Index first = kernel.mul(number, tile.countRows());
  Value firstQuery = kernel.toI32(first);
  enterHead(outer, firstQuery);
  // Nobody reads the rows of the item before any more.
  thread.synchronizeBlock();
  queries.copy(firstQuery, tile.countRows(),
               thread.getShared(thread.constant(0)));
  Index count =
      kernel.min(tile.countRows(),
                 kernel.sub(arguments.getSize(launch.sites.query, 2), first));
  TileSide side = mask.enter(pos::Side::query, first, count, tile.countRows());

  Carried start;
  auto [firstTile, endTile] = getTiles(split);
  start.walk = walk.advance(walk.begin(side, firstTile, endTile));
  start.stage = thread.constant(0);
  start.softmax = softmax.begin();
  start.output.assign(output.countSums(), kernel.constantF32(0));
  kernel.when(walk.isThere(start.walk),
              [&] { copyTile(start.walk, start.stage); });
  thread.commitCopies();
  Values last = thread.loopWhile(
      flatten(start),
      [&](ValueRange all) { return walk.isThere(unflatten(all, start).walk); },
      [&](ValueRange all) { return flatten(emitTile(unflatten(all, start))); });
  // Without a tile the queries are still to come.
  thread.waitForCopies(0);
  Carried end = unflatten(last, start);
  auto [batch, head] = point.getPlace();
  SmallVector<FragmentSoftmax::Row> rows = softmax.finish(end.softmax);
  Index batchOf = batch, headOf = head;
  kernel.when(
      kernel.equal(arguments.getScalar(launch.splits), 1),
      [&] { output.store(batchOf, headOf, end.output, rows); },
      [&] { output.storeSplit(split, batchOf, headOf, end.output, rows); });
}

void codegen::createFragmentForward(const Lowering &lowering, StringRef suffix,
                                    const ForwardOperands &launch) {
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return getItems(kernel, arguments, launch);
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    KernelBuilder &kernel = thread.kernel;
    FragmentForward emitter(thread, arguments, launch, lowering.target.width);
    Index tiles = kernel.ceilDiv(arguments.getSize(launch.sites.query, 2),
                                 launch.tile.countRows());
    items.forEach([&](const Item &item) {
      // The last tile of a head first: under a causal mask it is the longest.
      emitter.emit(item[0], kernel.sub(kernel.sub(tiles, 1), item[1]), item[2]);
    });
  };
  createBlockKernel(lowering, suffix, launch.layout, launch.tile.getBlock(),
                    {items, run, launch.tile.countScores()});
}
