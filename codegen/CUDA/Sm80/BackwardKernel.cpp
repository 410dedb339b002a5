//===- BackwardKernel.cpp - The backward on tensor cores ------------------===//

#include "codegen/CUDA/Sm80/BackwardKernel.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentGradients.h"
#include "codegen/CUDA/Sm80/FragmentRows.h"
#include "codegen/CUDA/Sm80/FragmentSums.h"
#include "codegen/CUDA/Sm80/KeyGradientShare.h"
#include "codegen/CUDA/Sm80/PassingTiles.h"
#include "codegen/CUDA/Sm80/PositionSums.h"
#include "codegen/CUDA/Sm80/QueryGradient.h"
#include "codegen/CUDA/Sm80/SharedScores.h"

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
class FragmentBackward : PassingTiles {
public:
  /// `lanes`: of the vectors that tables are written in.
  FragmentBackward(ThreadBuilder &thread, ArgumentBlock &arguments,
                   const BackwardOperands &launch, int64_t lanes);

  /// Before the first item.
  void clearSums() { sums.clear(); }
  /// `keyHead` counts heads of keys, `chunk` those of their tiles.
  void emit(Index batch, Index keyHead, Index chunk);

private:
  struct Carried : PassingTiles::Carried {
    Values payload;             ///< see FragmentSums, of a head
    Values keys;                ///< dK; where warps share, what the warp has
    SmallVector<Values> values; ///< dV; then none

    SmallVector<MutableArrayRef<Value>> getParts() {
      SmallVector<MutableArrayRef<Value>> parts{walk, stage, hinges, payload,
                                                keys};
      llvm::append_range(parts, values);
      return parts;
    }
  };

  void copyKeys();
  SmallVector<ChunkPart> getStatistics(Index ofHeads);
  HeadNumbers getNumbers(Index head);
  Carried begin(const Pass &pass);
  void emitKeys();
  Values emitHead(const Pass &pass, Index head, ValueRange carried,
                  const Carried &like);
  Carried emitTile(const Pass &pass, Carried carried);
  Value getMoments(size_t number);
  void addScoreGradients(Value stage, ValueRange keyProducts,
                         ValueRange probabilities, Carried &carried,
                         MutableArrayRef<Value> ofHinges);
  Values multiplyValues(Value stage);
  FragmentRows makeRows(const SharedRowShape &shape);
  void storeKeys(ValueRange sums);
  void storeValue(unsigned number, ValueRange sums);
  void storeRows(FragmentRows &rows, ValueRange sums,
                 const GradientRows &gradient, double factor);

  const BackwardOperands &launch;
  const BackwardTile &tile;
  Value keyLength;
  FragmentGradients gradients;
  FragmentSums sums;
  std::optional<PositionSums> positionSums;
  WantedCotangents wanted;
  SharedScores sharedScores;
  QueryGradient queryGradient;
  std::optional<KeyGradientShare> share;
  FragmentRows keyRows;
  SmallVector<FragmentRows, 2> valueRows;

  // Where the emitted code stands.
  Index batch = 0, keyHead = 0, chunk = 0;
  Index queryHead = 0;
  Value firstKey; ///< of the tile (i32)
};
} // namespace

FragmentBackward::FragmentBackward(ThreadBuilder &thread,
                                   ArgumentBlock &arguments,
                                   const BackwardOperands &launch,
                                   int64_t lanes)
    : PassingTiles(thread, arguments, launch, launch.tile,
                   // Whole stages: a backward needs all registers, and with
                   // bytes ptxas spills numbers of loops around that of tiles.
                   {launch.tile.getStage(), launch.tile.getStageBytes(),
                    launch.tile.getWindows(), launch.tile.getStageBytes()},
                   lanes),
      launch(launch), tile(launch.tile),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      gradients(thread, point, scores, launch, tile),
      sums(thread, arguments, launch), sharedScores(thread, tile),
      queryGradient(thread, arguments, products, launch),
      share(tile.sharesGradients()
                ? std::optional(KeyGradientShare(thread, products, tile))
                : std::nullopt),
      keyRows(makeRows(tile.head)) {
  staying.push_back({getRows(launch.key, tile.head), 0});
  passing.push_back({getRows(launch.query, tile.head), 0});
  for (auto [number, shape] : llvm::enumerate(tile.values)) {
    staying.push_back(
        {getRows(launch.values[number], shape), tile.getValues(number)});
    passing.push_back({getRows(launch.outputGradients[number], shape),
                       tile.getOutputGradients(number)});
    valueRows.push_back(makeRows(shape));
  }
  if (!launch.sinks.ofPositions.empty()) {
    positionSums.emplace(thread, arguments, point, launch,
                         *kernel.builder.getInsertionBlock());
    llvm::append_range(wanted.hoisted, positionSums->getSinks());
  }
  llvm::append_range(wanted.hoisted, sums.getSinks());
  for (auto [number, op] : llvm::enumerate(launch.plan.hingeSums))
    if (point.wantsUnits(op))
      wanted.hingeSums.push_back(number);
}

/// Zeros; the walk stands nowhere.
FragmentBackward::Carried FragmentBackward::begin(const Pass &pass) {
  Carried start;
  start.stage = thread.constant(0);
  Value zero = kernel.constantF32(0);
  if (pass.ofKeys)
    start.keys.assign(keyRows.countSums(), zero);
  for (const FragmentRows &rows : valueRows)
    start.values.emplace_back(pass.ofValues && !share ? rows.countSums() : 0,
                              zero);
  return start;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void FragmentBackward::copyKeys() {
  for (PlacedRows &placed : staying)
    placed.rows.copy(firstKey, tile.countRows(), getShared(placed.bytes));
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

/// dS comes to shared memory, and to dK where warps do not share that out. Adds
/// the gradients of what the payload reads to what is carried, to the state of
/// a hinge product, and to sums elsewhere.
void FragmentBackward::addScoreGradients(Value stage, ValueRange keyProducts,
                                         ValueRange probabilities,
                                         Carried &carried,
                                         MutableArrayRef<Value> ofHinges) {
  Values outputProducts = multiplyValues(stage);
  if (hingeProduct.exists()) {
    Values results = gradients.emitCotangents(probabilities, outputProducts);
    sharedScores.store(results, tile.getScoreGradients());
    // While sums are made no number of their operands waits for them.
    if (!share)
      products.addRows(results, {stage}, tile.head, carried.keys);
    hingeProduct.addGradients(sums, results, ofHinges);
    return;
  }
  Values all = gradients.emitScoreGradients(keyProducts, probabilities,
                                            outputProducts, wanted);
  size_t taken = 0;
  auto take = [&](size_t count) {
    size_t first = taken;
    taken += count * tile.countScores();
    return ArrayRef(all).slice(first, taken - first);
  };
  Values results(take(1));
  sharedScores.store(results, tile.getScoreGradients());
  if (positionSums)
    positionSums->addTile(take(positionSums->getSinks().size()));
  sums.addTile(take(sums.getSinks().size()), carried.payload);
  for (size_t number = 0; number < wanted.hingeSums.size(); ++number) {
    ValueRange own = take(1);
    scores.whereOffsetsAre({}, [&]() -> Values {
      hinges.enterTile(tile.getElements());
      hinges.addMoments(wanted.hingeSums[number], tile.getElements(), own,
                        getMoments(number));
      return {};
    });
  }
  if (!share)
    products.addRows(results, {stage}, tile.head, carried.keys);
}

FragmentBackward::Carried FragmentBackward::emitTile(const Pass &pass,
                                                     Carried carried) {
  Value first = getFirstColumn(carried.walk);
  bool keepsQuerySums = pass.ofKeys && tile.keepsQuerySums;
  // Nobody reads dS or dQ of the tile before any more, either.
  PassingTiles::Carried next =
      keepsQuerySums ? enterTile(carried, [&] { queryGradient.copy(first); })
                     : enterTile(carried);
  Value stage = getStage(carried.stage);
  gradients.enterTile(thread.advance(stage, tile.getStatistics()));
  Values keyProducts(tile.countScores(), kernel.constantF32(0));
  products.multiply({getShared(0)}, {stage}, tile.head, keyProducts);
  Values probabilities = gradients.emitProbabilities(
      scores.emit(keyProducts, walk.isVisible(carried.walk)),
      scores.getAddend());
  if (share)
    sharedScores.store(probabilities, tile.getProbabilities());
  else if (pass.ofValues)
    for (auto [number, shape] : llvm::enumerate(tile.values))
      products.addRows(probabilities, {stage, tile.getOutputGradients(number)},
                       shape, carried.values[number]);
  if (pass.ofKeys) {
    addScoreGradients(stage, keyProducts, probabilities, carried, next.hinges);
    if (keepsQuerySums)
      thread.waitForCopies(1); // the next tile may still be on its way
    thread.synchronizeBlock();
    // Behind branches no product begins, so sums come last; but where dQ is
    // loaded it leaves no register for what they need.
    if (!keepsQuerySums)
      sums.finishTile(first);
    if (share)
      share->add(stage, carried.keys);
    queryGradient.add(first, getShared(0));
    if (keepsQuerySums)
      sums.finishTile(first);
  }
  static_cast<PassingTiles::Carried &>(carried) = next;
  return carried;
}

//===----------------------------------------------------------------------===//
// Tiles of keys
//===----------------------------------------------------------------------===//

HeadNumbers FragmentBackward::getNumbers(Index head) {
  auto size = [&](unsigned dim) {
    return asShort(kernel, arguments.getSize(launch.sites.query, dim));
  };
  auto find = [&](Index element) {
    return asShort(kernel, kernel.add(kernel.mul(element, size(1)), head));
  };
  auto findOf = [&](Index part) {
    return find(kernel.add(kernel.mul(part, size(0)), batch));
  };
  Index ofWarp =
      kernel.add(kernel.mul(chunk, tile.warps), kernel.fromI32(thread.warp));
  return {find(batch), findOf(chunk), findOf(ofWarp)};
}

/// The address of the moments of a function of wanted.hingeSums at the head.
Value FragmentBackward::getMoments(size_t number) {
  const KernelPlan &plan = launch.plan;
  unsigned function = plan.findHinges(plan.hingeSums[wanted.hingeSums[number]]);
  // Each warp has a part of its own.
  Index part =
      kernel.add(kernel.mul(chunk, tile.warps), kernel.fromI32(thread.warp));
  return arguments.getAddress(*launch.hingeMoments[function],
                              {part, batch, queryHead});
}

/// There are statistics of all rows of a tile, in front of its windows.
SmallVector<ChunkPart> FragmentBackward::getStatistics(Index ofHeads) {
  SmallVector<ChunkPart> parts;
  for (auto [number, tensor] : llvm::enumerate(launch.statistics)) {
    int64_t before = number * tile.columns * wordBytes;
    parts.push_back({arguments.getAddress(tensor, {0, ofHeads}),
                     /*isBackward=*/false,
                     tile.getStatistics() + before - tile.getWindows(),
                     tile.columns});
  }
  return parts;
}

/// All tiles of a head; carries all but the walk.
Values FragmentBackward::emitHead(const Pass &pass, Index head,
                                  ValueRange before, const Carried &like) {
  for (PlacedRows &placed : passing)
    placed.rows.enterHead(batch, head);
  HeadNumbers numbers = getNumbers(head);
  point.enterRows(batch, head, firstKey, getStatistics(numbers.ofHeads));
  queryGradient.enterHead(numbers);
  sums.enterHead(numbers, firstKey);
  if (positionSums)
    positionSums->enterHead(numbers, head, firstKey);
  queryHead = head;
  Index first = kernel.fromI32(firstKey);
  Index count = kernel.min(tile.countRows(),
                           kernel.sub(kernel.fromI32(keyLength), first));
  TileSide side = mask.enter(pos::Side::key, first, count, tile.countRows());
  Index tiles = kernel.ceilDiv(kernel.fromI32(columnLength), tile.columns);

  Carried start = unflatten(before, like);
  if (pass.ofKeys)
    start.payload = sums.begin();
  if (hingeProduct.exists()) {
    FragmentHingeProduct::FindMoments find;
    if (pass.ofKeys && !wanted.hingeSums.empty())
      find = [&] { return getMoments(0); };
    start.hinges = hingeProduct.enterHead(find);
  }
  Carried end = passTiles<Carried>(
      start, side, thread.constant(0), kernel.toI32(tiles),
      [&](Carried carried) { return emitTile(pass, std::move(carried)); });
  if (pass.ofKeys)
    sums.finishHead(firstKey, end.payload);
  if (hingeProduct.exists())
    hingeProduct.finishHead(end.hinges);
  end.walk.clear();
  end.hinges.clear();
  end.payload.clear();
  return flatten(end);
}

/// Rows of dK or of a value's dV that a warp sums up.
FragmentRows FragmentBackward::makeRows(const SharedRowShape &shape) {
  if (!share)
    return {thread, tile.blocks, shape, point.column};
  Value column =
      thread.add(share->firstLane, thread.mul(thread.rem(thread.lane, 4), 2));
  return {thread, tile.countGradientBlocks(), shape,
          tile.countGradientLanes(shape), column};
}

void FragmentBackward::storeKeys(ValueRange sums) {
  storeRows(keyRows, sums, launch.keyGradient, launch.plan.scale);
}

void FragmentBackward::storeValue(unsigned number, ValueRange sums) {
  storeRows(valueRows[number], sums, launch.valueGradients[number],
            /*factor=*/1.0);
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
  Value first = share ? thread.add(share->firstKey, thread.div(thread.lane, 4))
                      : point.row;
  for (int64_t row = 0; row < rows.countRows(); ++row) {
    Value key = thread.add(thread.add(firstKey, first),
                           FragmentElement::get(row / 2, 0, 2 * (row % 2)).row);
    kernel.when(thread.less(key, keyLength), [&] {
      place.back() = kernel.fromI32(key);
      rows.store(sums, row, arguments.getAddress(gradient.tensor, place),
                 arguments.getElementType(gradient.tensor), finish);
    });
  }
}

/// The tile of keys from `firstKey` on, for the heads of queries of a group.
/// What a tile can compute anew takes no register before.
void FragmentBackward::emitKeys() {
  for (PlacedRows &placed : staying)
    placed.rows.enterHead(batch, keyHead);
  auto countHeads = [&](unsigned tensor) {
    return asShort(kernel, arguments.getSize(tensor, 1));
  };
  Index group =
      kernel.div(countHeads(launch.sites.query), countHeads(launch.sites.key));
  Index first = kernel.mul(keyHead, group);
  Value firstHead = kernel.toI32(first);
  Value endHead = kernel.toI32(kernel.add(first, group));
  walk.areRowsWhole =
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
    if (share) {
      kernel.when(
          share->isOfKeys, [&] { storeKeys(end.keys); },
          [&] { storeValue(0, end.keys); });
      continue;
    }
    if (pass.ofKeys)
      storeKeys(end.keys);
    if (pass.ofValues)
      for (auto [number, own] : llvm::enumerate(end.values))
        storeValue(number, own);
  }
}

/// Numbers that last while an item runs have 32 bits: of registers there are
/// few.
void FragmentBackward::emit(Index ofBatch, Index ofHeads, Index number) {
  batch = asShort(kernel, ofBatch);
  keyHead = asShort(kernel, ofHeads);
  chunk = asShort(kernel, number);
  if (positionSums)
    positionSums->enterItem(batch, keyHead, chunk);
  // Chunks take turns at tiles of keys, from the middle on in the other order:
  // under a causal mask earlier keys are seen by more queries. The tile is all
  // that lasts meanwhile, since its turn follows from it.
  Value tiles =
      thread.div(thread.add(keyLength, tile.countRows() - 1), tile.countRows());
  auto flip = [&](Value number) {
    Value half = thread.div(tiles, 2);
    Value back = thread.sub(thread.add(tiles, half), thread.add(number, 1));
    return thread.select(thread.less(number, half), number, back);
  };
  auto getFirstKey = [&](Value turn) {
    Value own = thread.select(thread.less(turn, tiles), flip(turn), tiles);
    return thread.mul(own, tile.countRows());
  };
  thread.loopWhile(
      getFirstKey(kernel.toI32(chunk)),
      [&](ValueRange carried) { return thread.less(carried[0], keyLength); },
      [&](ValueRange carried) -> Values {
        firstKey = carried[0];
        emitKeys();
        Value turn = flip(thread.div(firstKey, tile.countRows()));
        Value chunks = kernel.toI32(arguments.getScalar(launch.chunks));
        return {getFirstKey(thread.add(turn, chunks))};
      });
}

void codegen::createFragmentBackward(const Lowering &lowering, StringRef suffix,
                                     const BackwardOperands &launch) {
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    auto size = [&](unsigned tensor, unsigned dim) {
      return asShort(kernel, arguments.getSize(tensor, dim));
    };
    return ItemSpace(kernel,
                     {size(launch.sites.key, 0), size(launch.sites.key, 1),
                      asShort(kernel, arguments.getScalar(launch.chunks))});
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    // Its sums leave so few registers that ptxas would read the number again
    // 14 times in a tile, which takes as long as a load of shared memory.
    if (launch.hingeProduct)
      keepNumber(thread);
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
