//===- BackwardKernel.cpp - The backward on tensor cores ------------------===//

#include "codegen/CUDA/Sm80/BackwardKernel.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentGradients.h"
#include "codegen/CUDA/Sm80/FragmentRows.h"
#include "codegen/CUDA/Sm80/FragmentSums.h"
#include "codegen/CUDA/Sm80/QueryGradient.h"
#include "codegen/CUDA/Sm80/SharedRows.h"
#include "codegen/CUDA/Sm80/TileWalk.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

namespace {
/// The gradients that a pass over the queries sums up.
struct Pass {
  bool ofKeys = true, ofValues = true;
};

/// Writes one item at the insertion point of `kernel`.
class FragmentBackward {
public:
  /// `lanes`: of the vectors that tables are written in.
  FragmentBackward(ThreadBuilder &thread, ArgumentBlock &arguments,
                   const BackwardOperands &launch, int64_t lanes);

  /// Before the first item.
  void clearSums() { sums.clear(); }
  /// `keyHead` counts heads of keys, `chunk` those of their tiles.
  void emit(Index batch, Index keyHead, Index chunk);

private:
  /// What one tile of queries leaves for the next.
  struct Carried {
    Values walk;
    Value stage;                ///< number of that of the tile at hand (i32)
    Values keys;                ///< dK
    SmallVector<Values> values; ///< dV
    Values payload;             ///< see FragmentSums, of a head
  };

  SharedRows getRows(unsigned tensor, SharedRowShape shape) {
    return SharedRows(thread, arguments, tensor, shape, tile.countThreads());
  }
  Value getShared(int64_t bytes) {
    return thread.getShared(thread.constant(bytes));
  }
  static Values flatten(const Carried &carried);
  static Carried unflatten(ValueRange values, const Carried &like);
  Value getFirstQuery(ValueRange walked) {
    return thread.mul(TileWalk::getTile(walked), tile.columns);
  }
  /// Whether all queries of the tile exist (i1).
  Value isWholeTile(ValueRange walked) {
    return thread.less(thread.add(getFirstQuery(walked), tile.columns - 1),
                       queryLength);
  }
  Value getStage(Value number) {
    return thread.getShared(
        thread.add(thread.mul(number, tile.getStageBytes()), tile.getStage()));
  }
  void copyKeys();
  void enterStatistics(Index head);
  void copyTile(ValueRange walked, Value stage);
  void copyRows(Value first, Value stage, bool areWhole);
  Carried begin(const Pass &pass);
  void emitKeys(Value firstHead, Value endHead);
  Values emitHead(const Pass &pass, Index head, ValueRange carried,
                  const Carried &like);
  Carried emitTile(const Pass &pass, Carried carried);
  Values multiplyValues(Value stage);
  void storeRows(FragmentRows &rows, ValueRange sums,
                 const GradientRows &gradient, double factor);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardOperands &launch;
  const BackwardTile &tile;
  FragmentPoint point;
  TileMask mask;
  Value queryLength, keyLength;
  TileWalk walk;
  SharedRows queries, keys;
  SmallVector<SharedRows, 2> values, outputGradients;
  FragmentProducts products;
  FragmentHinges hinges;
  FragmentScores scores;
  FragmentGradients gradients;
  FragmentSums sums;
  WantedCotangents wanted;
  QueryGradient queryGradient;
  FragmentRows keyRows;
  SmallVector<FragmentRows, 2> valueRows;

  // Where the emitted code stands.
  Index batch = 0, keyHead = 0, chunk = 0;
  Value firstKey;                  ///< of the tile (i32)
  SmallVector<Value> hingeMoments; ///< addresses, as wanted.hingeSums
  Value areKeysWhole;              ///< whether all of its keys exist (i1)
  Value statistics; ///< address of the number of a head that the thread copies
};
} // namespace

FragmentBackward::FragmentBackward(ThreadBuilder &thread,
                                   ArgumentBlock &arguments,
                                   const BackwardOperands &launch,
                                   int64_t lanes)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(launch.tile),
      point(thread, arguments, launch, launch.tile),
      mask(kernel, arguments, point, launch.plan, launch.sites),
      queryLength(kernel.toI32(arguments.getSize(launch.sites.query, 2))),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      walk(thread, launch.plan, mask, tile, queryLength),
      queries(getRows(launch.query, tile.head)),
      keys(getRows(launch.key, tile.head)), products(thread, tile),
      hinges(thread, arguments, point, launch, lanes),
      scores(kernel, arguments, point, hinges, launch, tile),
      gradients(thread, point, scores, launch, tile),
      sums(thread, arguments, launch),
      queryGradient(thread, arguments, products, launch),
      keyRows(thread, tile, tile.head, point.column) {
  for (auto [number, shape] : llvm::enumerate(tile.values)) {
    values.push_back(getRows(launch.values[number], shape));
    outputGradients.push_back(getRows(launch.outputGradients[number], shape));
    valueRows.emplace_back(thread, tile, shape, point.column);
  }
  llvm::append_range(wanted.hoisted, sums.getSinks());
  for (auto [number, op] : llvm::enumerate(launch.plan.hingeSums))
    if (point.wantsUnits(op))
      wanted.hingeSums.push_back(number);
}

//===----------------------------------------------------------------------===//
// What tiles of queries carry
//===----------------------------------------------------------------------===//

Values FragmentBackward::flatten(const Carried &carried) {
  Values all(carried.walk);
  all.push_back(carried.stage);
  llvm::append_range(all, carried.payload);
  llvm::append_range(all, carried.keys);
  for (const Values &sums : carried.values)
    llvm::append_range(all, sums);
  return all;
}

FragmentBackward::Carried FragmentBackward::unflatten(ValueRange all,
                                                      const Carried &like) {
  auto take = [&](size_t count) {
    Values taken(all.take_front(count));
    all = all.drop_front(count);
    return taken;
  };
  Carried carried;
  carried.walk = take(like.walk.size());
  carried.stage = take(1).front();
  carried.payload = take(like.payload.size());
  carried.keys = take(like.keys.size());
  for (const Values &sums : like.values)
    carried.values.push_back(take(sums.size()));
  return carried;
}

/// Zeros; the walk stands nowhere.
FragmentBackward::Carried FragmentBackward::begin(const Pass &pass) {
  Carried start;
  start.stage = thread.constant(0);
  Value zero = kernel.constantF32(0);
  if (pass.ofKeys)
    start.keys.assign(keyRows.countSums(), zero);
  for (const FragmentRows &rows : valueRows)
    start.values.emplace_back(pass.ofValues ? rows.countSums() : 0, zero);
  return start;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void FragmentBackward::copyKeys() {
  keys.copy(firstKey, tile.countRows(), getShared(0));
  for (auto [number, rows] : llvm::enumerate(values))
    rows.copy(firstKey, tile.countRows(), getShared(tile.getValues(number)));
}

void FragmentBackward::copyRows(Value first, Value stage, bool areWhole) {
  auto copy = [&](SharedRows &rows, int64_t bytes) {
    Value to = thread.advance(stage, bytes);
    if (areWhole)
      rows.copyWhole(first, tile.columns, to);
    else
      rows.copy(first, tile.columns, to);
  };
  copy(queries, 0);
  for (auto [number, rows] : llvm::enumerate(outputGradients))
    copy(rows, tile.getOutputGradients(number));
  point.copyTables(first, thread.advance(stage, tile.getWindows()), areWhole);
}

/// Most tiles are whole, and copied without asking what exists of them. There
/// are statistics of all rows of a tile.
void FragmentBackward::copyTile(ValueRange walked, Value number) {
  Value first = getFirstQuery(walked), stage = getStage(number);
  constexpr int64_t wordBytes = 4;
  kernel.when(thread.less(thread.thread,
                          thread.constant(statisticsCount * tile.columns)),
              [&] {
                thread.copy(
                    thread.advance(thread.advance(stage, tile.getStatistics()),
                                   thread.mul(thread.thread, wordBytes)),
                    kernel.advance(statistics, {kernel.fromI32(first)}),
                    wordBytes, thread.constant(wordBytes));
              });
  Value isWhole = kernel.both(isWholeTile(walked), queries.getAligned());
  for (const SharedRows &rows : outputGradients)
    isWhole = kernel.both(isWhole, rows.getAligned());
  kernel.when(
      isWhole, [&] { copyRows(first, stage, /*areWhole=*/true); },
      [&] { copyRows(first, stage, /*areWhole=*/false); });
}

//===----------------------------------------------------------------------===//
// A tile of queries
//===----------------------------------------------------------------------===//

/// dP, of all values.
Values FragmentBackward::multiplyValues(Value stage) {
  Values sums(tile.countScores(), kernel.constantF32(0));
  for (auto [number, shape] : llvm::enumerate(tile.values))
    products.multiply({getShared(0), tile.getValues(number)},
                      {stage, tile.getOutputGradients(number)}, shape, sums);
  return sums;
}

FragmentBackward::Carried FragmentBackward::emitTile(const Pass &pass,
                                                     Carried carried) {
  Values next = walk.advance(carried.walk);
  Value other = thread.sub(thread.constant(1), carried.stage);
  // The tile is there, and nobody reads the stage or dS of the one before any
  // more.
  thread.waitForCopies(0);
  thread.synchronizeBlock();
  kernel.when(walk.isThere(next), [&] { copyTile(next, other); });
  thread.commitCopies();

  Value first = getFirstQuery(carried.walk), stage = getStage(carried.stage);
  point.enterTile(first, thread.advance(stage, tile.getWindows()));
  hinges.leaveTile();
  gradients.enterTile(thread.advance(stage, tile.getStatistics()));
  Values keyProducts(tile.countScores(), kernel.constantF32(0));
  products.multiply({getShared(0)}, {stage}, tile.head, keyProducts);
  Value isVisible =
      kernel.both(kernel.both(isWholeTile(carried.walk), areKeysWhole),
                  walk.isVisible(carried.walk));
  Values probabilities =
      gradients.emitProbabilities(scores.emit(keyProducts, isVisible));
  if (pass.ofValues)
    for (auto [number, shape] : llvm::enumerate(tile.values))
      products.addRows(probabilities, {stage, tile.getOutputGradients(number)},
                       shape, carried.values[number]);
  if (pass.ofKeys) {
    Values all = gradients.emitScoreGradients(keyProducts, probabilities,
                                              multiplyValues(stage), wanted);
    size_t taken = 0;
    auto take = [&](size_t count) {
      size_t first = taken;
      taken += count * tile.countScores();
      return ArrayRef(all).slice(first, taken - first);
    };
    ArrayRef<Value> scoreGradients = take(1);
    queryGradient.store(scoreGradients);
    sums.addTile(take(wanted.hoisted.size()), carried.payload);
    for (auto [number, moments] :
         llvm::zip_equal(wanted.hingeSums, hingeMoments))
      hinges.addMoments(number, tile.getElements(), take(1), moments);
    products.addRows(scoreGradients, {stage}, tile.head, carried.keys);
    thread.synchronizeBlock();
    sums.finishTile(first, firstKey);
    queryGradient.add(first, getShared(0));
  }
  carried.walk = next;
  carried.stage = other;
  return carried;
}

//===----------------------------------------------------------------------===//
// Tiles of keys
//===----------------------------------------------------------------------===//

/// A thread copies one number of a tile.
void FragmentBackward::enterStatistics(Index head) {
  assert(tile.countThreads() >= statisticsCount * tile.columns &&
         "a thread has a number at most");
  Value part = thread.div(thread.thread, tile.columns);
  for (auto [number, tensor] : llvm::enumerate(launch.statistics)) {
    Value own = arguments.getAddress(tensor, {batch, head});
    statistics = number == 0
                     ? own
                     : thread.select(thread.less(part, thread.constant(number)),
                                     statistics, own);
  }
  statistics = kernel.advance(
      statistics, {kernel.fromI32(thread.rem(thread.thread, tile.columns))});
}

/// All tiles of a head; carries all but the walk.
Values FragmentBackward::emitHead(const Pass &pass, Index head,
                                  ValueRange before, const Carried &like) {
  point.enterRows(batch, head, firstKey);
  queries.enterHead(batch, head);
  for (SharedRows &rows : outputGradients)
    rows.enterHead(batch, head);
  enterStatistics(head);
  queryGradient.enterHead(chunk, batch, head);
  sums.enterHead(chunk, batch, head);
  hingeMoments.clear();
  for (unsigned number : wanted.hingeSums) {
    const KernelPlan &plan = launch.plan;
    unsigned function = plan.findHinges(plan.hingeSums[number]);
    // Each warp has a part of its own.
    Index part =
        kernel.add(kernel.mul(chunk, tile.warps), kernel.fromI32(thread.warp));
    hingeMoments.push_back(arguments.getAddress(*launch.hingeMoments[function],
                                                {part, batch, head}));
  }
  Index first = kernel.fromI32(firstKey);
  Index count = kernel.min(tile.countRows(),
                           kernel.sub(kernel.fromI32(keyLength), first));
  TileSide side = mask.enter(pos::Side::key, first, count, tile.countRows());
  Index tiles = kernel.ceilDiv(kernel.fromI32(queryLength), tile.columns);

  Carried start = unflatten(before, like);
  if (pass.ofKeys)
    start.payload = sums.begin();
  start.walk =
      walk.advance(walk.begin(side, thread.constant(0), kernel.toI32(tiles)));
  kernel.when(walk.isThere(start.walk),
              [&] { copyTile(start.walk, start.stage); });
  thread.commitCopies();
  Values last = thread.loopWhile(
      flatten(start),
      [&](ValueRange all) { return walk.isThere(unflatten(all, start).walk); },
      [&](ValueRange all) {
        return flatten(emitTile(pass, unflatten(all, start)));
      });
  Carried end = unflatten(last, start);
  if (pass.ofKeys)
    sums.finishHead(firstKey, end.payload);
  end.walk.clear();
  end.payload.clear();
  return flatten(end);
}

void FragmentBackward::storeRows(FragmentRows &rows, ValueRange sums,
                                 const GradientRows &gradient, double factor) {
  Value scale = kernel.constantF32(factor);
  auto finish = [&](Value sum) {
    return factor == 1.0 ? sum : kernel.mulF(sum, scale);
  };
  SmallVector<Index> place{batch, keyHead, 0};
  if (gradient.isPartial)
    place.insert(place.begin(), 0);
  for (int64_t row = 0; row < tile.countThreadRows(); ++row) {
    Value key = thread.add(thread.add(firstKey, point.row),
                           FragmentElement::get(row / 2, 0, 2 * (row % 2)).row);
    kernel.when(thread.less(key, keyLength), [&] {
      place.back() = kernel.fromI32(key);
      rows.store(sums, row, arguments.getAddress(gradient.tensor, place),
                 arguments.getElementType(gradient.tensor), finish);
    });
  }
}

/// The tile of keys from `firstKey` on, for some heads of queries (i32).
void FragmentBackward::emitKeys(Value firstHead, Value endHead) {
  areKeysWhole =
      thread.less(thread.add(firstKey, tile.countRows() - 1), keyLength);
  // Nobody reads the rows of the tile before any more, and sums are clear.
  thread.synchronizeBlock();
  copyKeys();
  SmallVector<Pass, 2> passes{{}};
  if (tile.isSplit)
    passes = {{/*ofKeys=*/false, /*ofValues=*/true},
              {/*ofKeys=*/true, /*ofValues=*/false}};
  for (const Pass &pass : passes) {
    // A pass may begin where another one ended, with a stage still read.
    if (!pass.ofValues)
      thread.synchronizeBlock();
    Carried start = begin(pass);
    Values carried = flatten(start);
    carried.push_back(firstHead);
    carried = thread.loopWhile(
        carried,
        [&](ValueRange all) { return thread.less(all.back(), endHead); },
        [&](ValueRange all) {
          Values next = emitHead(pass, kernel.fromI32(all.back()),
                                 all.drop_back(), start);
          next.push_back(thread.add(all.back(), 1));
          return next;
        });
    Carried end = unflatten(carried, start);
    // Without a tile the keys are still to come.
    thread.waitForCopies(0);
    if (pass.ofKeys)
      storeRows(keyRows, end.keys, launch.keyGradient, launch.plan.scale);
    if (pass.ofValues)
      for (auto [rows, sums, gradient] :
           llvm::zip_equal(valueRows, end.values, launch.valueGradients))
        storeRows(rows, sums, gradient, /*factor=*/1.0);
  }
}

/// Numbers that last while an item runs have 32 bits: of registers there are
/// few.
void FragmentBackward::emit(Index ofBatch, Index ofHeads, Index number) {
  auto narrow = [&](Index index) {
    return kernel.fromI32(kernel.toI32(index));
  };
  batch = narrow(ofBatch);
  keyHead = narrow(ofHeads);
  chunk = narrow(number);
  Index group = narrow(kernel.div(arguments.getSize(launch.sites.query, 1),
                                  arguments.getSize(launch.sites.key, 1)));
  Index firstHead = narrow(kernel.mul(keyHead, group));
  queryGradient.clear(chunk, batch, firstHead, group);
  keys.enterHead(batch, keyHead);
  for (SharedRows &rows : values)
    rows.enterHead(batch, keyHead);
  Value first = kernel.toI32(firstHead);
  Value end = kernel.toI32(kernel.add(firstHead, group));
  Value step = kernel.toI32(
      kernel.mul(arguments.getSize(launch.queryGradient, 0), tile.countRows()));
  thread.loopWhile(
      kernel.toI32(kernel.mul(chunk, tile.countRows())),
      [&](ValueRange carried) { return thread.less(carried[0], keyLength); },
      [&](ValueRange carried) -> Values {
        firstKey = carried[0];
        emitKeys(first, end);
        return {thread.add(carried[0], step)};
      });
}

void codegen::createFragmentBackward(const Lowering &lowering, StringRef suffix,
                                     const BackwardOperands &launch) {
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(launch.sites.key, 0),
                              arguments.getSize(launch.sites.key, 1),
                              arguments.getSize(launch.queryGradient, 0)});
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    FragmentBackward emitter(thread, arguments, launch, lowering.target.width);
    // Not for each item: other warps may still sum up what the one before it
    // has stored.
    emitter.clearSums();
    items.forEach(
        [&](const Item &item) { emitter.emit(item[0], item[1], item[2]); });
  };
  createBlockKernel(lowering, suffix, launch.layout, launch.tile.getBlock(),
                    {items, run, launch.tile.countScores()});
}
