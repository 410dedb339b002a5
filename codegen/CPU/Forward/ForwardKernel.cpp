//===- ForwardKernel.cpp - The loop nest of the forward -------------------===//

#include "codegen/CPU/Forward/ForwardOffsetBand.h"
#include "codegen/CPU/Forward/OnlineSoftmax.h"
#include "codegen/CPU/Forward/OperandPacking.h"
#include "codegen/CPU/Forward/PanelOutput.h"
#include "codegen/CPU/Forward/ScoreCell.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ForwardTask::ForwardTask(const KernelPlan &plan, const VectorTarget &target,
                         Type element, ArrayRef<int64_t> headDims,
                         ArrayRef<int64_t> valueDims)
    : plan(plan), element(element), pairs(target.bf16Dot && element.isBF16()),
      headParts(headDims, target, pairs), values(valueDims, target, pairs),
      headDim(headParts.getDim()), valueDim(values.getDim()),
      offsetShape(target, headDims.front()) {
  // Both fill the registers but for a few: 16 of 32, and 12 of 16 with one for
  // a scalar and three for a row of vectors.
  bool isWide = target.hasManyRegisters();
  rows = isWide ? 8 : 4;
  vectors = isWide ? 2 : 3;
  panel = vectors * target.width;
  scoreStride = keys * panel;
  queryWords = pairs ? llvm::divideCeil(headDim, 2) : headDim;
  keyWords = getCopiedRowWords(target, headDim, pairs);
  outputRows = llvm::alignTo(valueDim, pairs ? 2 * target.width : target.width);
  valueWords = pairs ? outputRows : getCopiedRowWords(target, valueDim, pairs);
  bool converts = element.isBF16() && !pairs;
  copiesKeys = !plan.keyRows.empty() || converts || !headParts.isSingle() ||
               (pairs && headDim % 2 != 0);
  copiesValues = !plan.valueRows.empty() || converts || !values.isSingle();
  // Every item maps the rows of all keys again: more queries share that, as
  // long as theirs and the output's rows leave half of a second cache to the
  // block.
  constexpr int64_t cacheWords = secondCache / 2 / 4;
  if (!plan.keyRows.empty() || !plan.valueRows.empty())
    maxPanels = std::clamp<int64_t>(
        cacheWords / ((queryWords + outputRows) * panel), leastPanels, 12);
}

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

/// Panels of an item: up to `maxPanels`, fewer where a small problem would
/// otherwise have few items, and such that the tiles of a head are even. Every
/// item copies the keys and values again, so where they are copied items are
/// larger, and it reads them again, so where they are too long for the second
/// cache items have enough queries for the bytes that pass (CacheTraffic.h). A
/// function of the shape only.
static Index getPanels(KernelBuilder &kernel, ArgumentBlock &arguments,
                       const ForwardTask &task) {
  unsigned query = task.sites.query;
  Index perHead = kernel.ceilDiv(arguments.getSize(query, 2), task.panel);
  Index heads =
      kernel.mul(arguments.getSize(query, 0), arguments.getSize(query, 1));
  bool copies = task.copiesKeys || task.copiesValues || task.pairs;
  int64_t items = copies ? 32 : 96;
  Index wanted = kernel.div(kernel.mul(perHead, heads), items);
  int64_t bytes = task.element.getIntOrFloatBitWidth() / 8;
  int64_t cachedKeys =
      secondCache / 2 / (bytes * (task.headDim + task.valueDim));
  Value isLong = kernel.less(cachedKeys, arguments.getSize(task.sites.key, 2));
  int64_t enough = llvm::divideCeil(getLeastQueries(bytes), task.panel);
  Index least = kernel.select(isLong, enough, 1);
  wanted = kernel.min(kernel.max(wanted, least), task.maxPanels);
  Index tiles = kernel.max(kernel.ceilDiv(perHead, wanted), 1);
  return kernel.max(kernel.ceilDiv(perHead, tiles), 1);
}

/// Items are tiles of queries of the heads of the batch.
static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const ForwardTask &task) {
  unsigned query = task.sites.query;
  Index rows = kernel.mul(getPanels(kernel, arguments, task), task.panel);
  return ItemSpace(kernel, {kernel.mul(arguments.getSize(query, 0),
                                       arguments.getSize(query, 1)),
                            kernel.ceilDiv(arguments.getSize(query, 2), rows)});
}

//===----------------------------------------------------------------------===//
// The loop nest of an item
//===----------------------------------------------------------------------===//

namespace {
/// Writes one item at the insertion point of `kernel`.
class ForwardItem {
  using Values = KernelBuilder::Values;

  KernelBuilder &kernel;
  const ForwardTask &task;
  ForwardPlace place;
  OperandPacking packing;
  TileMask mask;
  ScanSweep sweep;
  ScoreCell cell;
  RowBuckets buckets;
  OnlineSoftmax softmax;
  PanelOutput output;
  ForwardOffsetBand band;
  Value keys, values; ///< rows of the block

public:
  ForwardItem(KernelBuilder &kernel, ArgumentBlock &arguments,
              const ForwardTask &task, ScratchLayout &layout, Value memory)
      : kernel(kernel), task(task),
        place(kernel, arguments, task, layout, memory), packing(place),
        mask(kernel, arguments, place.site, task.plan, task.sites),
        sweep(place), cell(place, sweep), buckets(place),
        softmax(place, buckets), output(place), band(place) {}

  /// `outer` counts heads of all elements of the batch; `tile` the tiles of a
  /// head, of `panels` panels each.
  void emit(Index outer, Index tile, Index panels) {
    enterHead(outer);
    Index capacity = kernel.mul(panels, task.panel);
    Index queries = place.arguments.getSize(task.sites.query, 2);
    place.firstQuery = kernel.mul(tile, capacity);
    place.queryCount =
        kernel.min(capacity, kernel.sub(queries, place.firstQuery));
    place.panelCount = kernel.ceilDiv(place.queryCount, task.panel);
    packQueries();

    Index keyRows = place.arguments.getSize(task.sites.key, 2);
    TileSide rows = mask.enter(pos::Side::query, place.firstQuery,
                               place.queryCount, task.countQueries());
    kernel.loop(0, keyRows, task.keys, [&](Value step) {
      place.firstKey = sweep.inOrder(step, keyRows, task.keys);
      place.keyCount =
          kernel.min(task.keys, kernel.sub(keyRows, place.firstKey));
      TileSide blockKeys =
          mask.enter(pos::Side::key, place.firstKey, place.keyCount, task.keys);
      kernel.when(getPossible(kernel, mask.classify(rows, blockKeys)),
                  [&] { emitBlock(blockKeys); });
    });
    kernel.loop(0, place.panelCount, 1, [&](Value panel) {
      place.enterPanel(panel, kernel.mul(panel, task.panel));
      buckets.addToOutput();
      softmax.store();
      output.store();
    });
  }

private:
  void enterHead(Index outer) {
    Index heads = place.arguments.getSize(task.sites.query, 1);
    place.enterHead(kernel.div(outer, heads), kernel.rem(outer, heads));
    place.site.enterHead(place.batch, place.head);
    place.site.setKeyHead(place.kvHead);
    for (pos::RowOperand operand :
         {pos::RowOperand::query, pos::RowOperand::key, pos::RowOperand::value})
      packing.enterHead(operand);
  }

  void packQueries() {
    packing.packPositions(place.site, kernel.mul(place.panelCount, task.panel));
    Index vectors = kernel.mul(place.panelCount, task.vectors);
    kernel.loop(0, vectors, 1, [&](Value vector) {
      place.panel = kernel.div(vector, task.vectors);
      Index lane = kernel.mul(kernel.rem(vector, task.vectors), kernel.width());
      Index first = kernel.mul(vector, kernel.width());
      packing.packQueries(lane, kernel.add(place.firstQuery, first));
      softmax.clear(lane);
      sweep.clear(lane);
      output.clear(lane);
    });
    band.packQueries();
    buckets.clear();
  }

  void emitBlock(const TileSide &blockKeys) {
    keys = packing.prepareKeys();
    values = packing.prepareValues();
    kernel.loop(0, place.panelCount, 1, [&](Value panel) {
      place.enterPanel(panel, kernel.mul(panel, task.panel));
      TileSide rows = mask.enter(pos::Side::query, place.firstRow,
                                 place.rowCount, task.panel);
      TileClass tile = mask.classify(rows, blockKeys);
      kernel.when(getPossible(kernel, tile), [&] { emitPanel(rows, tile); });
    });
  }

  void emitPanel(const TileSide &rows, const TileClass &block) {
    Values carried = softmax.loadMaxima();
    if (task.plan.mask) { // the range of keys that some query may see
      carried.push_back(kernel.constantI64(task.keys));
      carried.push_back(kernel.constantI64(0));
    }
    cell.enterPanel();
    band.enterPanel();
    Values last = kernel.loop(
        0, place.keyCount, task.rows, carried,
        [&](Value step, ValueRange values) -> Values {
          Index group = sweep.inOrder(step, place.keyCount, task.rows);
          packing.prefetchShare(
              kernel.add(kernel.mul(place.panel, place.keyCount), step),
              kernel.mul(place.panelCount, place.keyCount));
          ValueRange maxima = values.take_front(task.vectors);
          if (!task.plan.mask)
            return emitGroup(group, maxima, TileClass());
          return emitMasked(group, values, rows, block);
        });
    ValueRange maxima = ValueRange(last).take_front(task.vectors);
    if (!task.plan.mask)
      return emitSoftmax(maxima, 0, place.keyCount);
    Index low = last[task.vectors];
    Index high = kernel.min(last[task.vectors + 1], place.keyCount);
    kernel.when(kernel.less(low, high),
                [&] { emitSoftmax(maxima, low, high); });
  }

  /// A group of keys of which the panel's queries may see none; with the range
  /// of keys that they may see.
  Values emitMasked(Index group, ValueRange carried, const TileSide &rows,
                    const TileClass &block) {
    ValueRange maxima = carried.take_front(task.vectors);
    Index low = carried[task.vectors], high = carried[task.vectors + 1];
    TileClass tile = mask.classify(
        rows, mask.enter(pos::Side::key, kernel.add(place.firstKey, group),
                         task.rows, task.rows));
    if (block.certain && tile.certain)
      tile.certain = kernel.either(block.certain, tile.certain);
    Value isPossible = getPossible(kernel, tile);
    Values next = kernel.choose(
        isPossible, maxima.getTypes(),
        [&] { return emitGroup(group, maxima, tile); },
        [&] {
          cell.hide(group);
          return Values(maxima);
        });
    next.push_back(
        kernel.value(kernel.select(isPossible, kernel.min(low, group), low)));
    Index end = kernel.max(high, kernel.add(group, task.rows));
    next.push_back(kernel.value(kernel.select(isPossible, end, high)));
    return next;
  }

  Values emitGroup(Index group, ValueRange maxima, const TileClass &tile) {
    band.emit(group);
    return cell.emit(group, keys, maxima, tile);
  }

  void emitSoftmax(ValueRange maxima, Index low, Index high) {
    output.update(values, softmax.update(maxima, low, high), low, high);
  }
};
} // namespace

void codegen::createForwardKernel(const Lowering &lowering, StringRef suffix,
                                  const ForwardTask &task) {
  ScratchLayout layout;
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return getItems(kernel, arguments, task);
  };
  // Called after `run`, which hands the memory out.
  auto bytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) -> Index {
    Index end = RowBuckets::getEnd(kernel, arguments, task, layout,
                                   task.plan.weightedRows.size());
    return kernel.mul(end, 4);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value memory) {
    Index panels = getPanels(kernel, arguments, task);
    Index tiles = kernel.ceilDiv(arguments.getSize(task.sites.query, 2),
                                 kernel.mul(panels, task.panel));
    items.forEach([&](const Item &item) {
      // The last tile of a head first: under a causal mask it is the longest.
      Index tile = kernel.sub(kernel.sub(tiles, 1), item[1]);
      ForwardItem emitter(kernel, arguments, task, layout, memory);
      emitter.emit(item[0], tile, panels);
    });
  };
  createKernel(lowering, suffix, task.operands, lowering.target,
               {items, bytes, run});
}
