//===- ForwardLoopNest.cpp - The loop nest of the forward -----------------===//

#include "codegen/CPU/Forward/ForwardLoopNest.h"
#include "codegen/CPU/Forward/ForwardCell.h"
#include "codegen/CPU/Forward/ForwardOffsetBand.h"
#include "codegen/CPU/Forward/ForwardPacking.h"
#include "codegen/CPU/Forward/HeadRuns.h"
#include "codegen/CPU/Forward/OnlineSoftmax.h"
#include "codegen/CPU/Forward/PanelOutput.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

Index codegen::getPanels(KernelBuilder &kernel, const ForwardLaunch &launch,
                         Index heads, Index queries, Index keys) {
  Index perHead = kernel.ceilDiv(queries, launch.panel);
  bool copies = launch.copiesKeys || launch.copiesValues || launch.hasPairs();
  int64_t items = copies ? 32 : 96;
  Index wanted = kernel.div(kernel.mul(perHead, heads), items);
  int64_t bytes = launch.element.getIntOrFloatBitWidth() / 8;
  Value isLong = areBeyondSecondCache(
      kernel, keys, bytes * (launch.headDim + launch.valueDim));
  int64_t enough = llvm::divideCeil(getLeastQueries(bytes), launch.panel);
  Index least = kernel.select(isLong, enough, 1);
  wanted = kernel.min(kernel.max(wanted, least), launch.maxPanels);
  Index tiles = kernel.max(kernel.ceilDiv(perHead, wanted), 1);
  return kernel.max(kernel.ceilDiv(perHead, tiles), 1);
}

/// Of an item of the launch.
static Index getItemPanels(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const ForwardLaunch &launch) {
  unsigned query = launch.sites.query;
  Index queries = arguments.getSize(query, 2);
  Index heads =
      kernel.mul(arguments.getSize(query, 0), arguments.getSize(query, 1));
  Index keys = arguments.getSize(launch.sites.key, 2);
  return getPanels(kernel, launch, heads, queries, keys);
}

/// Items are tiles of queries of the heads of the batch.
static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const ForwardLaunch &launch) {
  unsigned query = launch.sites.query;
  Index rows =
      kernel.mul(getItemPanels(kernel, arguments, launch), launch.panel);
  return ItemSpace(kernel, {kernel.mul(arguments.getSize(query, 0),
                                       arguments.getSize(query, 1)),
                            kernel.ceilDiv(arguments.getSize(query, 2), rows)});
}

//===----------------------------------------------------------------------===//
// The loop nest of an item
//===----------------------------------------------------------------------===//

namespace {
/// Writes one item at the insertion point of `kernel`.
class ForwardLoopNest {
  using Values = KernelBuilder::Values;

  KernelBuilder &kernel;
  const ForwardLaunch &launch;
  ForwardItem item;
  ForwardPacking packing;
  TileMask mask;
  ScanSweep sweep;
  ForwardCell cell;
  RowBuckets buckets;
  OnlineSoftmax softmax;
  PanelOutput output;
  ForwardOffsetBand band;
  Value keys, values; ///< rows of the block
  int64_t ranges;     ///< of panels on a matrix unit, in scratch memory
  Index firstHead = 0;
  /// The mask may hide from one head of the item what another one sees.
  bool headsDiffer;

public:
  ForwardLoopNest(KernelBuilder &kernel, ArgumentBlock &arguments,
                  const ForwardLaunch &launch, ScratchMemory &memory)
      : kernel(kernel), launch(launch), item(kernel, arguments, launch, memory),
        packing(item),
        mask(kernel, arguments, item.point, launch.plan, launch.sites),
        sweep(item), cell(item, sweep), buckets(item), softmax(item, buckets),
        output(item), band(item),
        ranges(item.layout.reserve(launch.isTiled ? 4 * launch.maxPanels : 0)),
        headsDiffer(launch.areFew && variesWith(launch.plan, pos::Axis::head)) {
  }

  /// `outer` counts heads of all elements of the batch; `tile` the tiles of a
  /// head, of `panels` panels each.
  void emit(Index outer, Index tile, Index panels) {
    enterHead(outer);
    Index capacity = kernel.mul(panels, launch.panel);
    Index queries = item.arguments.getSize(launch.sites.query, 2);
    item.firstQuery = kernel.mul(tile, capacity);
    item.queryCount =
        kernel.min(capacity, kernel.sub(queries, item.firstQuery));
    item.panelCount = kernel.ceilDiv(item.queryCount, launch.panel);
    emitItem(launch.countQueries());
  }

  /// All queries, which are few, of `heads` heads that share keys.
  void emitHeads(Index outer, Index heads) {
    enterHead(outer);
    item.queryCount = item.arguments.getSize(launch.sites.query, 2);
    item.panelCount = heads;
    emitItem(launch.panel);
  }

private:
  /// `capacity`: queries of a head that an item may have.
  void emitItem(int64_t capacity) {
    packQueries();
    Index keyRows = item.arguments.getSize(launch.sites.key, 2);
    TileSide rows, blockKeys;
    if (!headsDiffer)
      rows = mask.enter(pos::Side::query, item.firstQuery, item.queryCount,
                        capacity);
    kernel.loop(0, keyRows, launch.keys, [&](Value step) {
      item.firstKey = sweep.inOrder(step, keyRows, launch.keys);
      item.keyCount =
          kernel.min(launch.keys, kernel.sub(keyRows, item.firstKey));
      if (!headsDiffer)
        blockKeys = enterKeys();
      kernel.when(isBlockPossible(rows, blockKeys),
                  [&] { emitBlock(blockKeys); });
    });
    kernel.loop(0, item.panelCount, 1, [&](Value panel) {
      enterPanel(panel);
      buckets.addToOutput();
      softmax.store();
      output.store();
    });
  }

  void enterHead(Index outer) {
    Index heads = item.arguments.getSize(launch.sites.query, 1);
    item.enterHead(kernel.div(outer, heads), kernel.rem(outer, heads));
    firstHead = item.head;
    item.point.enterHead(item.batch, item.head);
    item.point.setKeyHead(item.kvHead);
    for (pos::RowOperand operand :
         {pos::RowOperand::query, pos::RowOperand::key, pos::RowOperand::value})
      packing.enterHead(operand);
  }

  /// Of few queries a panel has those of a head.
  void enterPanel(Value panel) {
    if (!launch.areFew)
      return item.enterPanel(panel, kernel.mul(panel, launch.panel));
    item.head = kernel.add(firstHead, panel);
    item.point.enterHead(item.batch, item.head);
    item.enterPanel(panel, 0);
  }
  TileSide enterRows() {
    return mask.enter(pos::Side::query, item.firstRow, item.rowCount,
                      launch.panel);
  }
  TileSide enterKeys() {
    return mask.enter(pos::Side::key, item.firstKey, item.keyCount,
                      launch.keys);
  }

  /// Whether some query of the item may see some key of the block.
  Value isBlockPossible(const TileSide &rows, const TileSide &blockKeys) {
    if (!headsDiffer)
      return getPossible(kernel, mask.classify(rows, blockKeys));
    auto orOfHead = [&](Value panel, ValueRange known) -> Values {
      enterPanel(panel);
      Value isPossible =
          getPossible(kernel, mask.classify(enterRows(), enterKeys()));
      return {kernel.either(known[0], isPossible)};
    };
    return kernel.loop(0, item.panelCount, 1, kernel.constantI1(false),
                       orOfHead)[0];
  }

  void packQueries() {
    Index positions = launch.areFew ? Index(launch.panel)
                                    : kernel.mul(item.panelCount, launch.panel);
    packing.packPositions(item.point, positions);
    Index vectors = kernel.mul(item.panelCount, launch.vectors);
    kernel.loop(0, vectors, 1, [&](Value vector) {
      item.panel = kernel.div(vector, launch.vectors);
      Index lane =
          kernel.mul(kernel.rem(vector, launch.vectors), kernel.width());
      Index first = kernel.mul(vector, kernel.width());
      if (launch.areFew) {
        item.head = kernel.add(firstHead, vector);
        packing.enterHead(pos::RowOperand::query);
        first = 0;
      }
      packing.packQueries(lane, kernel.add(item.firstQuery, first));
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
    band.packKeys();
    if (launch.isTiled)
      return emitTiledPanels(blockKeys);
    auto emitPanel = [&](const TileSide &rows, const TileClass &tile) {
      emitScores(rows, tile, [&](ValueRange alpha, Index low, Index high) {
        output.update(values, alpha, low, high);
      });
    };
    forPanels(0, item.panelCount, blockKeys, emitPanel);
  }

  /// Calls `body` for panels of which some query may see some key of the block.
  void forPanels(
      Index first, Index end, const TileSide &blockKeys,
      function_ref<void(const TileSide &rows, const TileClass &tile)> body) {
    kernel.loop(first, end, 1, [&](Value panel) {
      enterPanel(panel);
      TileSide rows = enterRows();
      TileClass tile =
          mask.classify(rows, headsDiffer ? enterKeys() : blockKeys);
      kernel.when(getPossible(kernel, tile), [&] { body(rows, tile); });
    });
  }

  /// All products with keys, then all of the softmax, then all products with
  /// values, for some panels at a time.
  void emitTiledPanels(const TileSide &blockKeys) {
    kernel.loop(0, item.panelCount, launch.panelsTogether, [&](Value first) {
      Index end =
          kernel.min(kernel.add(first, launch.panelsTogether), item.panelCount);
      forPanels(first, end, blockKeys,
                [&](const TileSide &, const TileClass &) {
                  cell.enterPanel();
                  cell.multiplyBlock(keys);
                });
      forPanels(first, end, blockKeys,
                [&](const TileSide &rows, const TileClass &tile) {
                  storeRange(0, 0);
                  emitScores(rows, tile,
                             [&](ValueRange, Index low, Index high) {
                               storeRange(low, high);
                             });
                });
      forPanels(first, end, blockKeys,
                [&](const TileSide &, const TileClass &) {
                  auto [low, high] = loadRange();
                  kernel.when(kernel.less(low, high),
                              [&] { output.update(values, {}, low, high); });
                });
    });
  }

  /// The keys of the block that queries of the panel see.
  Value getRange(int64_t end) {
    return kernel.advance(item.at(ranges), {kernel.mul(item.panel, 2), end},
                          kernel.i64);
  }
  void storeRange(Index low, Index high) {
    kernel.store(kernel.value(low), getRange(0));
    kernel.store(kernel.value(high), getRange(1));
  }
  std::pair<Index, Index> loadRange() {
    return {kernel.load(kernel.i64, getRange(0)),
            kernel.load(kernel.i64, getRange(1))};
  }

  /// Makes the scores of the panel, and P of them; `body` gets what the output
  /// is to be scaled with, and the range of keys that are seen, if any are.
  void
  emitScores(const TileSide &rows, const TileClass &block,
             function_ref<void(ValueRange alpha, Index low, Index high)> body) {
    Values carried = softmax.loadMaxima();
    if (launch.plan.mask) { // the range of keys that some query may see
      carried.push_back(kernel.constantI64(launch.keys));
      carried.push_back(kernel.constantI64(0));
    }
    cell.enterPanel();
    band.enterPanel();
    Values last = kernel.loop(
        0, item.keyCount, launch.rows, carried,
        [&](Value step, ValueRange values) -> Values {
          Index group = sweep.inOrder(step, item.keyCount, launch.rows);
          packing.prefetchShare(
              kernel.add(kernel.mul(item.panel, item.keyCount), step),
              kernel.mul(item.panelCount, item.keyCount));
          output.prefetchShare(kernel.div(step, launch.rows),
                               kernel.ceilDiv(item.keyCount, launch.rows));
          ValueRange maxima = values.take_front(launch.vectors);
          if (!launch.plan.mask)
            return emitGroup(group, maxima, TileClass());
          return emitMasked(group, values, rows, block);
        });
    ValueRange maxima = ValueRange(last).take_front(launch.vectors);
    if (!launch.plan.mask)
      return emitSoftmax(maxima, 0, item.keyCount, body);
    Index low = last[launch.vectors];
    Index high = kernel.min(last[launch.vectors + 1], item.keyCount);
    kernel.when(kernel.less(low, high),
                [&] { emitSoftmax(maxima, low, high, body); });
  }

  /// A group of keys of which the panel's queries may see none; with the range
  /// of keys that they may see.
  Values emitMasked(Index group, ValueRange carried, const TileSide &rows,
                    const TileClass &block) {
    ValueRange maxima = carried.take_front(launch.vectors);
    Index low = carried[launch.vectors], high = carried[launch.vectors + 1];
    TileClass tile = mask.classify(
        rows, mask.enter(pos::Side::key, kernel.add(item.firstKey, group),
                         item.countKeys(group), launch.rows));
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
    Index end = kernel.max(high, kernel.add(group, launch.rows));
    next.push_back(kernel.value(kernel.select(isPossible, end, high)));
    return next;
  }

  Values emitGroup(Index group, ValueRange maxima, const TileClass &tile) {
    band.emit(group);
    return cell.emit(group, keys, maxima, tile);
  }

  void emitSoftmax(
      ValueRange maxima, Index low, Index high,
      function_ref<void(ValueRange alpha, Index low, Index high)> body) {
    Values alpha = softmax.update(
        maxima, low, high, [&](ValueRange alpha) { output.scale(alpha); });
    body(alpha, low, high);
  }
};
} // namespace

/// What of a launch calls with few queries run in its place; none of a call
/// that wants a gradient, since training decodes nothing.
static std::optional<ForwardLaunch> getFew(const Lowering &lowering,
                                           const ForwardLaunch &launch) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  int64_t queries =
      cast<RankedTensorType>(op.getQuery().getType()).getDimSize(2);
  std::optional<ForwardLaunch> few = launch.ofFewQueries(lowering.target);
  bool areMany =
      few && !ShapedType::isDynamic(queries) && queries > few->mostFewQueries;
  if (launch.statistics || areMany)
    return std::nullopt;
  return few;
}

void codegen::createForwardKernel(const Lowering &lowering, StringRef suffix,
                                  const ForwardLaunch &launch) {
  std::optional<ForwardLaunch> few = getFew(lowering, launch);
  ScratchLayout layout(lowering.target.near);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return getItems(kernel, arguments, launch);
  };
  // Called after `run`, which hands the memory out.
  auto bytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) -> Index {
    Index end = RowBuckets::getEnd(kernel, arguments, launch, layout,
                                   launch.plan.weightedRows.size());
    return kernel.mul(end, 4);
  };
  auto runItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                      const Items &items, ScratchMemory &memory) {
    Index panels = getItemPanels(kernel, arguments, launch);
    Index tiles = kernel.ceilDiv(arguments.getSize(launch.sites.query, 2),
                                 kernel.mul(panels, launch.panel));
    items.forEach([&](const Item &item) {
      // The last tile of a head first: under a causal mask it is the longest.
      Index tile = kernel.sub(kernel.sub(tiles, 1), item[1]);
      ForwardLoopNest emitter(kernel, arguments, launch, memory);
      emitter.emit(item[0], tile, panels);
    });
  };
  auto areMany = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.less(few->mostFewQueries,
                       arguments.getSize(launch.sites.query, 2));
  };
  // Heads that share keys.
  auto getGroup = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.div(arguments.getSize(launch.sites.query, 1),
                      arguments.getSize(launch.sites.key, 1));
  };
  auto runHeads = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                      const Items &items, ScratchMemory &memory) {
    HeadRuns runs(kernel, getGroup(kernel, arguments), few->maxPanels);
    runs.forEach({items.begin, items.end}, [&](Index first, Index count) {
      ForwardLoopNest emitter(kernel, arguments, *few, memory);
      emitter.emitHeads(first, count);
    });
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    ScratchMemory memory(kernel, layout, scratch);
    if (!few)
      return runItems(kernel, arguments, items, memory);
    // Both have an item for each head then.
    kernel.when(
        areMany(kernel, arguments),
        [&] { runItems(kernel, arguments, items, memory); },
        [&] { runHeads(kernel, arguments, items, memory); });
  };
  auto nearBytes = [&] { return layout.getNearBytes(); };
  auto together = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.select(areMany(kernel, arguments), 1,
                         getGroup(kernel, arguments));
  };
  KernelBody body{items, bytes, run, nearBytes};
  if (few)
    body.together = together;
  createKernel(lowering, suffix, launch.operands, lowering.target, body);
  layout.tell(lowering, suffix);
}
