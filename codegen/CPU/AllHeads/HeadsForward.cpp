//===- HeadsForward.cpp - Forward of scores of all heads ------------------===//

#include "codegen/CPU/AllHeads/HeadsForward.h"
#include "codegen/CPU/Forward/AttentionLaunch.h"
#include "codegen/Tables/HeadsPayload.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/CacheTraffic.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

HeadsForwardTask::HeadsForwardTask(const KernelPlan &plan,
                                   const VectorTarget &target, Type element,
                                   ArrayRef<int64_t> headDims,
                                   ArrayRef<int64_t> valueDims,
                                   const HeadsWeights &weights)
    : ForwardTask(plan, target, element, headDims, valueDims), weights(weights),
      heads(weights.getHeads()) {
  // What an item keeps of its panels, with a block's rows of K and V and its
  // scores, stays in a second cache. Blocks are short for that.
  keys = 32;
  int64_t ofBlock = heads * keys * (keyWords + valueWords + panel);
  int64_t ofPanel = heads * panel * (queryWords + outputRows);
  itemPanels = std::clamp<int64_t>((secondCache / 4 - ofBlock) / ofPanel, 1, 4);
  maxPanels = heads * itemPanels;
  scoreTiles = heads;
  // A line more: rows of different heads do not share a set of the cache.
  scoreStride = keys * panel + 16;
}

HeadsForwardItem::HeadsForwardItem(KernelBuilder &kernel,
                                   ArgumentBlock &arguments,
                                   const HeadsForwardTask &task,
                                   const ForwardScratch &scratch,
                                   ScratchLayout &layout, Value memory)
    : ForwardItem(kernel, arguments, task, scratch, memory), task(task),
      window(kernel, arguments, task.plan, task.sites, task.window(), layout,
             memory),
      headsSite(task.weights, task.packed, window, layout, memory, kernel,
                arguments, task.plan, task.sites, task.vectors) {
  site.setOffsets(KernelSite::Offsets::InPlace);
  headsSite.setHinges(&hinges);
  kinds = at(layout.reserve(2 * task.keys / task.rows));
}

Value HeadsForwardItem::scoresOf(Index number, Index row) {
  return at(scratch.scores, {kernel.mul(number, task.scoreStride),
                             kernel.mul(row, task.panel)});
}

void HeadsForwardItem::enterHead(Index number) {
  head = number;
  Index heads = arguments.getSize(task.sites.query, 1);
  Index group = kernel.div(heads, arguments.getSize(task.sites.key, 1));
  kvHead = kernel.div(head, group);
  scoreOffset = kernel.mul(head, task.scoreStride);
}

//===----------------------------------------------------------------------===//
// The item
//===----------------------------------------------------------------------===//

void HeadsForwardItem::emit(Index batchNumber, Index first, Index count) {
  batch = batchNumber;
  firstOfItem = first;
  panelsOfItem = count;
  panelCount = 1;
  headsSite.enterHead(batch, Index(0));
  site.enterHead(batch, Index(0));
  kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
    enterPanel(panel);
    kernel.loop(0, task.heads, 1, [&](Value number) {
      enterHead(number);
      querySite.enterHead(batch, head);
      kernel.loop(0, task.panel, kernel.width(), [&](Value lane) {
        packVector(kernel.add(placeOfPanel, head), lane,
                   kernel.add(firstQuery, lane));
      });
    });
  });
  Index keyRows = arguments.getSize(task.sites.key, 2);
  kernel.loop(0, keyRows, task.keys, [&](Value first) {
    firstKey = first;
    keyCount = kernel.min(task.keys, kernel.sub(keyRows, first));
    kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
      enterPanel(panel);
      whenPossible(classifyKeys(firstKey, keyCount, task.keys),
                   [&] { emitBlock(panel); });
    });
  });
  kernel.loop(0, panelsOfItem, 1, [&](Value panel) {
    enterPanel(panel);
    kernel.loop(0, task.heads, 1, [&](Value number) {
      enterHead(number);
      site.enterHead(batch, head);
      storePanel(kernel.add(placeOfPanel, head), 0);
    });
  });
}

/// Stands at a panel of the item.
void HeadsForwardItem::enterPanel(Index number) {
  firstQuery = kernel.mul(kernel.add(firstOfItem, number), task.panel);
  placeOfPanel = kernel.mul(number, task.heads);
  queryCount =
      kernel.min(task.panel, kernel.sub(arguments.getSize(task.sites.query, 2),
                                        firstQuery));
  int64_t capacity = task.maxPanels * task.panel;
  for (ScoreSite *points : {&site, static_cast<ScoreSite *>(&headsSite)})
    points->packPositions(firstQuery, task.panel, capacity,
                          at(scratch.positions));
  rows = mask.enter(pos::Side::query, firstQuery, queryCount, task.panel);
}

void HeadsForwardItem::emitBlock(Index panel) {
  // Entry of (key, query) in the tables: padding + (Lk - 1 - key) + query. The
  // window begins with the block's last key.
  Index first = kernel.sub(arguments.getSize(task.sites.key, 2), firstKey);
  first =
      kernel.add(kernel.add(first, firstQuery), task.sites.padding - task.keys);
  window.load(batch, first);
  auto [low, high] = classifyGroups();
  emitProducts(panel, low, high);
  emitPayloads(low, high);
  Index seen = kernel.min(high, keyCount);
  kernel.when(kernel.less(low, seen), [&] {
    kernel.loop(0, task.heads, 1, [&](Value number) {
      enterHead(number);
      emitHead(low, seen);
    });
  });
}

//===----------------------------------------------------------------------===//
// Classes of groups
//===----------------------------------------------------------------------===//

TileClass HeadsForwardItem::classifyKeys(Index first, Index count,
                                         int64_t unit) {
  if (!task.plan.mask || variesWith(task.plan, pos::Axis::head))
    return {};
  return mask.classify(rows, mask.enter(pos::Side::key, first, count, unit));
}

/// Stores the kinds of the groups of the block and gives the range of keys that
/// some query may see.
std::pair<Index, Index> HeadsForwardItem::classifyGroups() {
  if (!task.plan.mask)
    return {0, keyCount};
  Values range = kernel.loop(
      0, keyCount, task.rows,
      {kernel.constantI64(task.keys), kernel.constantI64(0)},
      [&](Value group, ValueRange carried) -> Values {
        TileClass tile =
            classifyKeys(kernel.add(firstKey, group), task.rows, task.rows);
        Value isPossible = getPossible(tile);
        Index kind = tile.certain
                         ? kernel.select(tile.certain, TileKind::visible,
                                         TileKind::masked)
                         : Index(TileKind::masked);
        kind = kernel.select(isPossible, kind, TileKind::hidden);
        kernel.store(
            kernel.value(kind),
            kernel.advance(kinds, {kernel.div(group, task.rows)}, kernel.i64));
        Index low = carried[0], high = carried[1];
        return {kernel.value(
                    kernel.select(isPossible, kernel.min(low, group), low)),
                kernel.value(kernel.select(
                    isPossible, kernel.add(group, task.rows), high))};
      });
  return {range[0], range[1]};
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

void HeadsForwardItem::emitProducts(Index panel, Index low, Index high) {
  Index last = kernel.sub(keyCount, 1);
  kernel.loop(0, task.heads, 1, [&](Value number) {
    enterHead(number);
    keySite.enterHead(batch, kvHead);
    prepareKeys();
    query = at(scratch.query, {kernel.mul(kernel.add(placeOfPanel, head),
                                          task.queryWords * task.panel)});
    kernel.loop(low, high, task.rows, [&](Value group) {
      prefetchShare(kernel.add(kernel.mul(panel, task.keys), group),
                    kernel.mul(panelsOfItem, task.keys));
      // Keys past the end repeat the last one and are hidden later.
      SmallVector<TileRow> rows;
      for (int64_t row = 0; row < task.rows; ++row) {
        Index key = kernel.min(kernel.add(group, row), last);
        rows.push_back(
            {kernel.advance(keys, {kernel.mul(key, task.keyWords)})});
      }
      RegisterTile product;
      product.rows = rows;
      product.base = query;
      product.vectorStep = task.panel;
      product.vectors = task.vectors;
      product.count = task.queryWords;
      Values zeros(task.rows * task.vectors, kernel.splatF32(0));
      Values scores = emitTile(kernel, product, zeros);
      Value to = scoresOf(head, group);
      for (auto [place, score] : llvm::enumerate(scores))
        kernel.storeVector(score, to,
                           {static_cast<int64_t>(place) * kernel.width()});
    });
  });
}

void HeadsForwardItem::emitPayloads(Index low, Index high) {
  kernel.loop(low, high, task.rows, [&](Value group) {
    if (!task.plan.mask) {
      emitRows(group);
      return;
    }
    Index kind = kernel.load(
        kernel.i64,
        kernel.advance(kinds, {kernel.div(group, task.rows)}, kernel.i64));
    kernel.when(
        kernel.equal(kind, TileKind::hidden),
        [&] { hideRows(group, kernel.add(group, task.rows)); },
        [&] {
          emitRows(group);
          kernel.when(kernel.equal(kind, TileKind::masked),
                      [&] { maskGroup(group); });
        });
  });
  // The partner of an odd last key.
  Index end = kernel.min(high, keyCount);
  kernel.when(kernel.equal(kernel.rem(end, 2), 1),
              [&] { hideRows(end, kernel.add(end, 1)); });
}

void HeadsForwardItem::hideRows(Index low, Index high) {
  kernel.loop(0, task.heads, 1, [&](Value number) {
    kernel.loop(low, high, 1, [&](Value row) {
      Value to = scoresOf(number, row);
      for (int64_t v = 0; v < task.vectors; ++v)
        kernel.storeVector(kernel.splatF32(hiddenScore), to,
                           {v * kernel.width()});
    });
  });
}

/// The payload at a group of keys.
void HeadsForwardItem::emitRows(Index group) {
  Index end = kernel.min(kernel.add(group, task.rows), keyCount);
  auto moveToVector = [&](Index row, Index vector) {
    moveTo(group, kernel.add(group, row), kernel.mul(vector, kernel.width()));
  };
  hinges.fill(headsSite, moveToVector, kernel.sub(end, group));
  kernel.loop(group, end, 1, [&](Value row) { emitRow(group, row); });
}

void HeadsForwardItem::moveTo(Index group, Index keyInBlock, Index lane) {
  headsSite.enterPanel(kernel.add(firstQuery, lane), lane);
  headsSite.setPoint(0, kernel.add(firstKey, keyInBlock), 0);
  headsSite.setEntry(kernel.add(kernel.sub(task.keys - 1, keyInBlock), lane));
  headsSite.setCellPlace(
      kernel.add(kernel.mul(kernel.sub(keyInBlock, group), task.panel), lane));
}

/// The payload at one key and all queries of the panel.
void HeadsForwardItem::emitRow(Index group, Index keyInBlock) {
  pos::ScoreOp score = task.plan.score;
  Block &body = score.getBody().front();
  kernel.loop(0, task.panel, kernel.width(), [&](Value lane) {
    moveTo(group, keyInBlock, lane);
    Value row = kernel.advance(scoresOf(0, keyInBlock), {lane});
    Values scores;
    for (int64_t number = 0; number < task.heads; ++number)
      scores.push_back(kernel.loadVector(row, {number * task.scoreStride}));
    HeadsEmitter emitter(kernel.builder, headsSite, /*keepsUnits=*/false);
    if (failed(emitter.emit(body, scores)))
      return kernel.check(failure());
    FailureOr<Values> results =
        emitter.getAll(body.getTerminator()->getOperand(0));
    if (failed(results))
      return kernel.check(failure());
    for (auto [number, value] : llvm::enumerate(*results))
      kernel.storeVector(value, row,
                         {static_cast<int64_t>(number) * task.scoreStride});
  });
}

void HeadsForwardItem::maskGroup(Index group) {
  pos::MaskOp op = task.plan.mask;
  Index end = kernel.min(kernel.add(group, task.rows), keyCount);
  kernel.loop(0, task.heads, 1, [&](Value number) {
    site.enterHead(batch, Index(number));
    kernel.loop(group, end, 1, [&](Value row) {
      site.enterPanel(firstQuery, 0);
      for (int64_t v = 0; v < task.vectors; ++v) {
        site.setPoint(v, kernel.add(firstKey, row), 0);
        Values visible = callPayload(kernel, op.getBody().front(), {}, site);
        Value at = kernel.advance(scoresOf(number, row), {v * kernel.width()});
        kernel.storeVector(kernel.selectF(visible.front(),
                                          kernel.loadVector(at),
                                          kernel.splatF32(hiddenScore)),
                           at);
      }
    });
  });
}

//===----------------------------------------------------------------------===//
// Softmax and output of one head
//===----------------------------------------------------------------------===//

void HeadsForwardItem::emitHead(Index low, Index high) {
  valueSite.enterHead(batch, kvHead);
  prepareValues();
  Values maxima;
  Index place = kernel.add(placeOfPanel, head);
  Value before = statistics(scratch.maximum, place);
  for (int64_t v = 0; v < task.vectors; ++v)
    maxima.push_back(kernel.loadVector(before, {v * kernel.width()}));
  auto update = [&](Index row, int64_t rows, ValueRange carried) {
    Values next;
    Value from = scoresOf(head, row);
    for (int64_t v = 0; v < task.vectors; ++v) {
      // A tree: short chains.
      Values scores;
      for (int64_t r = 0; r < rows; ++r)
        scores.push_back(
            kernel.loadVector(from, {r * task.panel + v * kernel.width()}));
      scores.push_back(carried[v]);
      while (scores.size() > 1) {
        Values fewer;
        for (size_t i = 0; i + 1 < scores.size(); i += 2)
          fewer.push_back(kernel.maxF(scores[i], scores[i + 1]));
        if (scores.size() % 2)
          fewer.push_back(scores.back());
        scores = fewer;
      }
      next.push_back(scores.front());
    }
    return next;
  };
  constexpr int64_t step = 4;
  Index whole = kernel.add(
      low, kernel.mul(kernel.div(kernel.sub(high, low), step), step));
  maxima =
      kernel.loop(low, whole, step, maxima, [&](Value row, ValueRange carried) {
        return update(row, step, carried);
      });
  maxima =
      kernel.loop(whole, high, 1, maxima, [&](Value row, ValueRange carried) {
        return update(row, 1, carried);
      });
  return emitSoftmax(place, maxima, low, high);
}

//===----------------------------------------------------------------------===//
// Kernel and launch
//===----------------------------------------------------------------------===//

static void createHeadsForward(const Lowering &lowering,
                               const HeadsForwardTask &task,
                               const VectorTarget &target) {
  ForwardScratch scratch(task, target);
  ScratchLayout layout;
  layout.reserve(scratch.words);
  auto countPanels = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(arguments.getSize(task.sites.query, 2), task.panel);
  };
  // Fewer where a small problem would otherwise have few items: what passes per
  // product halves with two panels, and with four again.
  auto getItemPanels = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    constexpr int64_t wantedItems = 16;
    Index all = kernel.mul(countPanels(kernel, arguments),
                           arguments.getSize(task.sites.query, 0));
    return Index(kernel.min(kernel.max(kernel.div(all, wantedItems), 1),
                            task.itemPanels));
  };
  auto countTiles = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(countPanels(kernel, arguments),
                          getItemPanels(kernel, arguments));
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(task.sites.query, 0),
                              countTiles(kernel, arguments)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value memory) {
    Index all = countPanels(kernel, arguments);
    Index perItem = getItemPanels(kernel, arguments);
    Index tiles = countTiles(kernel, arguments);
    HeadsForwardItem emitter(kernel, arguments, task, scratch, layout, memory);
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
  createKernel(lowering, "forward", task.operands, target, {items, bytes, run});
}

FailureOr<SmallVector<Value>>
codegen::lowerHeadsForward(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Value query = op.getQuery();
  Type element = cast<RankedTensorType>(query.getType()).getElementType();
  // Of bf16 everything is computed in f32.
  VectorTarget target = lowering.target;
  target.bf16Dot = nullptr;
  HeadsWeights weights(lowering.plan, lowering.plan.scoreHeads);
  HeadsForwardTask task(lowering.plan, target, element,
                        getHeadParts(lowering.plan, query),
                        getHeadDims(op.getValues()), weights);
  HoistTableOptions options;
  options.order = OffsetOrder::Descending;
  options.padding = task.tablePadding();
  Value packed = weights.launch(lowering);
  HoistTables tables = launchHoists(lowering, options, &weights, packed);

  LaunchOperands operands;
  addForwardReads(lowering, tables, task, operands);
  task.packed = operands.read(packed);
  addForwardWrites(lowering, task, operands);
  createHeadsForward(lowering, task, target);
  launchAttention(lowering, operands, "forward", task.sites,
                  2 * (task.headDim + task.valueDim));
  return operands.writes;
}
