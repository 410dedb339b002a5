//===- AllHeadsForwardLoopNest.cpp - Forward of scores of all heads -------===//

#include "codegen/CPU/AllHeads/AllHeadsForwardLoopNest.h"
#include "codegen/CPU/AllHeads/AllHeadsScorePoint.h"
#include "codegen/CPU/AllHeads/AllHeadsUnitProducts.h"
#include "codegen/CPU/Forward/ForwardCell.h"
#include "codegen/CPU/Forward/ForwardPacking.h"
#include "codegen/CPU/Forward/OnlineSoftmax.h"
#include "codegen/CPU/Forward/PanelOutput.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

int64_t codegen::countItemPanels(const ForwardLaunch &launch, int64_t heads) {
  int64_t ofBlock = heads * allHeadsKeys *
                    (launch.keyWords + launch.valueWords + launch.panel);
  int64_t ofPanel =
      heads * launch.panel * (launch.queryWords + launch.outputRows);
  int64_t bytes = launch.element.getIntOrFloatBitWidth() / 8;
  int64_t enough = llvm::divideCeil(getLeastQueries(bytes), launch.panel);
  auto countFitting = [&](int64_t cache) {
    return std::clamp<int64_t>((cache / 4 - ofBlock) / ofPanel, 1, enough);
  };
  int64_t panels = countFitting(secondCache);
  return panels == enough ? panels : countFitting(largeSecondCache);
}

namespace {
/// Sizes and operands on top of those of scalar scores.
struct AllHeadsForwardLaunch : ForwardLaunch {
  AllHeadsForwardLaunch(const KernelPlan &plan, const VectorTarget &target,
                        Type element, ArrayRef<int64_t> headDims,
                        ArrayRef<int64_t> valueDims,
                        const AllHeadsWeights &weights)
      : ForwardLaunch(plan, target, element, headDims, valueDims),
        weights(weights), heads(weights.getHeads()) {
    keys = allHeadsKeys;
    itemPanels = countItemPanels(*this, heads);
    if (isNear) { // most of it is not there: a panel's queries alone
      itemPanels = vectors = 1;
      panel = target.width;
    }
    maxPanels = heads * itemPanels;
    scoreTiles = heads;
    // A line more: rows of different heads do not share a set of the cache.
    scoreStride = keys * panel + 16;
  }

  const AllHeadsWeights &weights;
  int64_t heads;
  int64_t itemPanels;  ///< of queries of an item, at most
  unsigned packed = 0; ///< the packed weights
  /// Entries of a window, and padding that offset tables need.
  int64_t window() const { return keys + panel; }
  int64_t tablePadding() const { return 2 * (keys + panel); }
};

/// Writes one item at the insertion point of `kernel`.
class AllHeadsForwardLoopNest {
  using Values = KernelBuilder::Values;

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const AllHeadsForwardLaunch &launch;
  ForwardItem item;
  ForwardPacking packing;
  TileMask mask;
  PiecewiseLinearTile hinges;
  RowBuckets buckets;
  OnlineSoftmax softmax;
  PanelOutput output;
  OffsetWindow window;
  AllHeadsForwardPoint headsPoint;
  Value kinds;     ///< i64 per group of keys: what the mask says of it
  Value areTurned; ///< i64: whether V^T of the block is made
  TileSide rows;   ///< the panel
  Index firstOfItem = 0, panelsOfItem = 1;
  Index placeOfPanel = 0; ///< of its first head in scratch memory

public:
  AllHeadsForwardLoopNest(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const AllHeadsForwardLaunch &launch,
                          ScratchMemory &memory)
      : kernel(kernel), arguments(arguments), launch(launch),
        item(kernel, arguments, launch, memory), packing(item),
        mask(kernel, arguments, item.point, launch.plan, launch.sites),
        hinges(kernel, arguments, launch.plan, launch.sites,
               item.at(item.layout.reserve(PiecewiseLinearTile::countWords(
                   launch.plan, launch.rows * launch.panel))),
               launch.rows, launch.vectors, /*hasGradients=*/false),
        buckets(item), softmax(item, buckets), output(item),
        window(kernel, arguments, launch.plan, launch.sites, launch.window(),
               memory),
        headsPoint(launch.weights, launch.packed, window, memory, kernel,
                   arguments, launch.plan, launch.sites, launch.vectors),
        kinds(item.at(item.layout.reserve(2 * launch.keys / launch.rows))),
        areTurned(item.at(item.layout.reserve(launch.isTiled ? 2 : 0))) {
    item.point.setOffsets(TilePoint::Offsets::InPlace);
    headsPoint.setHinges(&hinges);
  }

  /// Panels `first` to `first + count - 1` of the queries.
  void emit(Index batch, Index first, Index count) {
    item.batch = batch;
    firstOfItem = first;
    panelsOfItem = count;
    headsPoint.enterHead(batch, Index(0));
    item.point.enterHead(batch, Index(0));
    kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
      enterPanel(panel);
      forEachHead([&] {
        packing.enterHead(pos::RowOperand::query);
        kernel.loop(0, launch.panel, kernel.width(), [&](Value lane) {
          packing.packQueries(lane, kernel.add(item.firstQuery, lane));
          softmax.clear(lane);
          output.clear(lane);
        });
      });
    });
    Index keyRows = arguments.getSize(launch.sites.key, 2);
    kernel.loop(0, keyRows, launch.keys, [&](Value firstKey) {
      item.firstKey = firstKey;
      item.keyCount = kernel.min(launch.keys, kernel.sub(keyRows, firstKey));
      if (launch.isTiled)
        kernel.store(kernel.constantI64(0), areTurned);
      kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
        enterPanel(panel);
        kernel.when(
            getPossible(kernel, classifyKeys(item.firstKey, item.keyCount,
                                             launch.keys)),
            [&] { emitBlock(panel); });
      });
    });
    kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
      enterPanel(panel);
      forEachHead([&] {
        item.point.enterHead(item.batch, item.head);
        item.enterPanel(item.panel, 0);
        softmax.store();
        output.store();
      });
    });
  }

private:
  /// Of any head, also those that the item does not stand at.
  Value getScores(Index number, Index row) {
    return item.at(item.scores, {kernel.mul(number, launch.scoreStride),
                                 kernel.mul(row, launch.panel)});
  }

  Value getKind(Index group) {
    return kernel.advance(kinds, {kernel.div(group, launch.rows)}, kernel.i64);
  }

  void enterHead(Index number) {
    item.enterHead(item.batch, number);
    item.panel = kernel.add(placeOfPanel, number);
  }

  void forEachHead(function_ref<void()> body) {
    kernel.loop(0, launch.heads, 1, [&](Value number) {
      enterHead(number);
      body();
    });
  }

  /// Stands at a panel of the item.
  void enterPanel(Index number) {
    item.firstQuery = kernel.mul(kernel.add(firstOfItem, number), launch.panel);
    placeOfPanel = kernel.mul(number, launch.heads);
    item.queryCount = kernel.min(
        launch.panel,
        kernel.sub(arguments.getSize(launch.sites.query, 2), item.firstQuery));
    packing.packPositions(item.point, launch.panel);
    packing.packPositions(headsPoint, launch.panel);
    rows = mask.enter(pos::Side::query, item.firstQuery, item.queryCount,
                      launch.panel);
  }

  void emitBlock(Index panel) {
    // Entry of (key, query) in the tables: padding + (Lk - 1 - key) + query.
    // The window begins with the block's last key.
    Index first =
        kernel.sub(arguments.getSize(launch.sites.key, 2), item.firstKey);
    first = kernel.add(kernel.add(first, item.firstQuery),
                       launch.sites.offsetTables.padding - launch.keys);
    window.load(item.batch, first);
    auto [low, high] = classifyGroups();
    if (launch.isTiled)
      turnValues();
    emitProducts(panel, low, high);
    emitPayloads(low, high);
    Index seen = kernel.min(high, item.keyCount);
    kernel.when(kernel.less(low, seen),
                [&] { forEachHead([&] { emitHead(low, seen); }); });
  }

  /// V^T of all heads for a matrix unit, when the first panel that sees some of
  /// the block needs it.
  void turnValues() {
    kernel.when(kernel.equal(kernel.load(kernel.i64, areTurned), 0), [&] {
      kernel.store(kernel.constantI64(1), areTurned);
      Index heads = arguments.getSize(launch.sites.key, 1);
      kernel.loop(0, heads, 1, [&](Value number) {
        item.kvHead = number;
        packing.enterHead(pos::RowOperand::value);
        packing.prepareValues();
      });
    });
  }

  TileClass classifyKeys(Index first, Index count, int64_t unit) {
    if (!launch.plan.mask || variesWith(launch.plan, pos::Axis::head))
      return {};
    return mask.classify(rows, mask.enter(pos::Side::key, first, count, unit));
  }

  /// Stores the kinds of the groups of the block and gives the range of keys
  /// that some query may see.
  std::pair<Index, Index> classifyGroups() {
    if (!launch.plan.mask)
      return {0, item.keyCount};
    Values range = kernel.loop(
        0, item.keyCount, launch.rows,
        {kernel.constantI64(launch.keys), kernel.constantI64(0)},
        [&](Value group, ValueRange carried) -> Values {
          TileClass tile = classifyKeys(kernel.add(item.firstKey, group),
                                        item.countKeys(group), launch.rows);
          Value isPossible = getPossible(kernel, tile);
          Index kind = tile.certain
                           ? kernel.select(tile.certain, TileKind::visible,
                                           TileKind::masked)
                           : Index(TileKind::masked);
          kind = kernel.select(isPossible, kind, TileKind::hidden);
          kernel.store(kernel.value(kind), getKind(group));
          Index low = carried[0], high = carried[1];
          return {kernel.value(
                      kernel.select(isPossible, kernel.min(low, group), low)),
                  kernel.value(kernel.select(
                      isPossible, kernel.add(group, launch.rows), high))};
        });
    return {range[0], range[1]};
  }

  void emitProducts(Index panel, Index low, Index high) {
    Index last = kernel.sub(item.keyCount, 1);
    forEachHead([&] {
      packing.enterHead(pos::RowOperand::key);
      Value keys = packing.prepareKeys();
      Value query = item.ofPanel(item.query, launch.queryWords);
      if (launch.isTiled) {
        kernel.loop(low, high, launch.rows,
                    [&](Value group) { prefetchShare(panel, group); });
        return multiplyBlock(item, keys, query);
      }
      kernel.loop(low, high, launch.rows, [&](Value group) {
        prefetchShare(panel, group);
        // Keys past the end repeat the last one and are hidden later.
        SmallVector<TileRow> rows;
        for (int64_t row = 0; row < launch.rows; ++row) {
          Index key = kernel.min(kernel.add(group, row), last);
          rows.push_back(
              {kernel.advance(keys, {kernel.mul(key, launch.keyWords)})});
        }
        storeVectors(kernel, codegen::emitProducts(item, rows, query),
                     item.getScores(group));
      });
    });
  }

  /// Of what the next block reads, for a group of a panel.
  void prefetchShare(Index panel, Index group) {
    packing.prefetchShare(kernel.add(kernel.mul(panel, launch.keys), group),
                          kernel.mul(panelsOfItem, launch.keys));
  }

  void emitPayloads(Index low, Index high) {
    kernel.loop(low, high, launch.rows, [&](Value group) {
      if (!launch.plan.mask) {
        emitRows(group);
        return;
      }
      Index kind = kernel.load(kernel.i64, getKind(group));
      kernel.when(
          kernel.equal(kind, TileKind::hidden),
          [&] { hideRows(group, kernel.add(group, launch.rows)); },
          [&] {
            emitRows(group);
            kernel.when(kernel.equal(kind, TileKind::masked),
                        [&] { maskGroup(group); });
          });
    });
    // The partners of the last keys.
    Index end = kernel.min(high, item.keyCount);
    int64_t together = launch.softmaxRows;
    kernel.when(kernel.differ(kernel.rem(end, together), 0),
                [&] { hideRows(end, kernel.roundUp(end, together)); });
  }

  void hideRows(Index low, Index high) {
    Values hidden(launch.vectors, kernel.splatF32(hiddenScore));
    kernel.nest({{0, launch.heads}, {low, high}}, [&](ValueRange at) {
      storeVectors(kernel, hidden, getScores(at[0], at[1]));
    });
  }

  /// The payload at a group of keys.
  void emitRows(Index group) {
    Index end = kernel.min(kernel.add(group, launch.rows), item.keyCount);
    auto moveToVector = [&](Index row, Index vector) {
      moveTo(group, kernel.add(group, row), kernel.mul(vector, kernel.width()));
    };
    hinges.fill(headsPoint, moveToVector, kernel.sub(end, group));
    kernel.loop(group, end, 1, [&](Value row) { emitRow(group, row); });
  }

  void moveTo(Index group, Index keyInBlock, Index lane) {
    headsPoint.enterPanel(kernel.add(item.firstQuery, lane), lane);
    headsPoint.setPoint(0, kernel.add(item.firstKey, keyInBlock), 0);
    headsPoint.setEntry(
        kernel.add(kernel.sub(launch.keys - 1, keyInBlock), lane));
    headsPoint.setCellPlace(kernel.add(
        kernel.mul(kernel.sub(keyInBlock, group), launch.panel), lane));
  }

  /// The payload at one key and all queries of the panel.
  void emitRow(Index group, Index keyInBlock) {
    pos::ScoreOp score = launch.plan.score;
    Block &body = score.getBody().front();
    kernel.loop(0, launch.panel, kernel.width(), [&](Value lane) {
      moveTo(group, keyInBlock, lane);
      Value row = kernel.advance(getScores(0, keyInBlock), {lane});
      Values scores;
      for (int64_t number = 0; number < launch.heads; ++number)
        scores.push_back(item.form.emitScore(
            kernel, kernel.loadVector(row, {number * launch.scoreStride}), {}));
      AllHeadsEmitter emitter(kernel.builder, headsPoint, /*keepsUnits=*/false);
      emitter.emit(body, scores);
      Values results = emitter.getAll(body.getTerminator()->getOperand(0));
      for (auto [number, value] : llvm::enumerate(results))
        kernel.storeVector(value, row,
                           {static_cast<int64_t>(number) * launch.scoreStride});
    });
  }

  void maskGroup(Index group) {
    pos::MaskOp op = launch.plan.mask;
    Index end = kernel.min(kernel.add(group, launch.rows), item.keyCount);
    kernel.loop(0, launch.heads, 1, [&](Value number) {
      item.point.enterHead(item.batch, Index(number));
      kernel.loop(group, end, 1, [&](Value row) {
        item.point.enterPanel(item.firstQuery, 0);
        for (int64_t v = 0; v < launch.vectors; ++v) {
          item.point.setPoint(v, kernel.add(item.firstKey, row), 0);
          Values visible =
              callPayload(kernel, op.getBody().front(), {}, item.point);
          Value at =
              kernel.advance(getScores(number, row), {v * kernel.width()});
          kernel.storeVector(kernel.selectF(visible.front(),
                                            kernel.loadVector(at),
                                            kernel.splatF32(hiddenScore)),
                             at);
        }
      });
    });
  }

  void emitHead(Index low, Index high) {
    packing.enterHead(pos::RowOperand::value);
    Value values =
        launch.isTiled ? packing.getTurnedValues() : packing.prepareValues();
    auto update = [&](Index row, int64_t rows, ValueRange carried) {
      Values next;
      Value from = item.getScores(row);
      for (int64_t v = 0; v < launch.vectors; ++v) {
        Values scores;
        for (int64_t r = 0; r < rows; ++r)
          scores.push_back(
              kernel.loadVector(from, {r * launch.panel + v * kernel.width()}));
        scores.push_back(carried[v]);
        next.push_back(emitMaximum(kernel, scores));
      }
      return next;
    };
    constexpr int64_t step = 4;
    Index whole = kernel.add(
        low, kernel.mul(kernel.div(kernel.sub(high, low), step), step));
    Values maxima = softmax.loadMaxima();
    maxima = kernel.loop(low, whole, step, maxima,
                         [&](Value row, ValueRange carried) {
                           return update(row, step, carried);
                         });
    maxima =
        kernel.loop(whole, high, 1, maxima, [&](Value row, ValueRange carried) {
          return update(row, 1, carried);
        });
    Values alpha = softmax.update(
        maxima, low, high, [&](ValueRange alpha) { output.scale(alpha); });
    output.update(values, alpha, low, high);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernel and launch
//===----------------------------------------------------------------------===//

static void createAllHeadsForwardKernel(const Lowering &lowering,
                                        const AllHeadsForwardLaunch &launch,
                                        const VectorTarget &target) {
  ScratchLayout layout(target.near);
  auto countPanels = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(arguments.getSize(launch.sites.query, 2),
                          launch.panel);
  };
  // Fewer where a small problem would otherwise have few items: heads are no
  // items here. It has the fewer of them if its keys pass from far away.
  auto getItemPanels = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    constexpr int64_t wantedItems = 16;
    Index all = kernel.mul(countPanels(kernel, arguments),
                           arguments.getSize(launch.sites.query, 0));
    Index keyRows = kernel.mul(arguments.getSize(launch.sites.key, 1),
                               arguments.getSize(launch.sites.key, 2));
    int64_t bytes = launch.element.getIntOrFloatBitWidth() / 8;
    Value areFar = areBeyondSecondCache(
        kernel, keyRows, bytes * (launch.headDim + launch.valueDim));
    Index wanted = kernel.select(areFar, leastItemsOfAllHeads, wantedItems);
    return Index(
        kernel.min(kernel.max(kernel.div(all, wanted), 1), launch.itemPanels));
  };
  auto countTiles = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(countPanels(kernel, arguments),
                          getItemPanels(kernel, arguments));
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(launch.sites.query, 0),
                              countTiles(kernel, arguments)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    ScratchMemory memory(kernel, layout, scratch);
    Index all = countPanels(kernel, arguments);
    Index perItem = getItemPanels(kernel, arguments);
    Index tiles = countTiles(kernel, arguments);
    AllHeadsForwardLoopNest emitter(kernel, arguments, launch, memory);
    items.forEach([&](const Item &item) {
      // The last tile first: under a causal mask it is the longest.
      Index tile = kernel.sub(kernel.sub(tiles, 1), item[1]);
      Index first = kernel.mul(tile, perItem);
      emitter.emit(item[0], first, kernel.min(perItem, kernel.sub(all, first)));
    });
  };
  // Called after `run`, which hands the memory out.
  auto bytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layout.getBytes());
  };
  auto nearBytes = [&] { return layout.getNearBytes(); };
  createKernel(lowering, "forward", launch.operands, target,
               {items, bytes, run, nearBytes});
  layout.tell(lowering, "forward");
}

FailureOr<SmallVector<Value>>
codegen::lowerAllHeadsForward(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Value query = op.getQuery();
  Type element = cast<RankedTensorType>(query.getType()).getElementType();
  VectorTarget target = getTargetOfAllHeads(lowering.target, element);
  AllHeadsWeights weights(lowering.plan, lowering.plan.scoreHeads);
  AllHeadsForwardLaunch launch(lowering.plan, target, element,
                               getHeadParts(lowering.plan, query),
                               getHeadDims(op.getValues()), weights);
  HoistTableOptions options;
  options.order = OffsetOrder::Descending;
  options.padding = launch.tablePadding();
  Value packed = weights.launch(lowering);
  HoistTables tables = launchHoists(lowering, options, &weights, packed);

  LaunchOperands operands;
  addForwardReads(lowering, tables, launch, operands);
  launch.packed = operands.read(packed);
  addForwardWrites(lowering, launch, operands);
  createAllHeadsForwardKernel(lowering, launch, target);
  launchAttention(lowering, operands, "forward", launch.sites,
                  2 * (launch.headDim + launch.valueDim));
  return operands.writes;
}
