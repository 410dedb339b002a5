//===- HeadsBackward.cpp - Backward of scores of all heads ----------------===//

#include "codegen/CPU/AllHeads/HeadsBackward.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/HeadsPayload.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

HeadsBackward::HeadsBackward(KernelBuilder &kernel, ArgumentBlock &arguments,
                             const BackwardTask &task, ScratchLayout &layout,
                             Value scratch)
    : BackwardKernel(kernel, arguments, task, layout, scratch),
      heads(task.weights->getHeads()),
      // A line more: rows of different heads do not share a set of the cache.
      tileStride(shape.queries * shape.keys + 16),
      window(kernel, arguments, task.plan, task.sites,
             shape.queries + shape.keys, layout, scratch),
      gradientWindow(kernel, arguments, task.plan, task.sites,
                     shape.queries + shape.keys, layout, scratch),
      headsSite(kernel, arguments, task, window, gradientWindow, layout,
                scratch) {
  site.setOffsets(KernelSite::Offsets::InPlace);
  headsSite.setHinges(&hinges);
  auto reserve = [&](int64_t words) {
    return kernel.advance(scratch, {layout.reserve(words)});
  };
  int64_t head = shape.keys * shape.headRow,
          value = shape.keys * shape.valueRow;
  keyRowsOfAll = reserve(heads * head);
  keysOfAll = reserve(heads * head);
  valuesOfAll = reserve(heads * value);
  keyGradients = reserve(heads * head);
  valueGradients = reserve(heads * value);
  scores = reserve(heads * tileStride);
  scoreGradients = reserve(heads * tileStride);
  if (variesWith(task.plan, pos::Axis::head))
    visibleStride = shape.queries * shape.keys;
  visible = reserve((visibleStride ? heads : 1) * shape.queries * shape.keys);
  form.moveFactorToKeys();
  negativeShift = reserve(heads * shape.queries);
  inverseSum = reserve(heads * shape.queries);
  delta = reserve(heads * shape.queries);
  kinds = reserve(2 * shape.queries / shape.rows);
}

//===----------------------------------------------------------------------===//
// Loop nest
//===----------------------------------------------------------------------===//

ItemSpace HeadsBackward::getItems(KernelBuilder &kernel,
                                  ArgumentBlock &arguments,
                                  const BackwardTask &task) {
  return ItemSpace(kernel, {arguments.getSize(task.sites.key, 0),
                            arguments.getSize(*task.queryGradient, 0)});
}

void HeadsBackward::enterHead(Index number) {
  head = number;
  Index group = kernel.div(heads, arguments.getSize(task.sites.key, 1));
  kvHead = kernel.div(head, group);
  return querySite.enterHead(batch, head);
}

void HeadsBackward::emitItem(const Item &item) {
  Index chunks = arguments.getSize(*task.queryGradient, 0);
  batch = item[0];
  chunk = item[1];
  headsSite.enterItem(chunk, 0);
  headsSite.enterHead(batch, Index(0));
  site.enterHead(batch, Index(0));
  Index paddedQueries = arguments.getSize(*task.queryGradient, 3);
  kernel.clear(arguments.getAddress(*task.queryGradient, {chunk, batch}),
               kernel.mul(paddedQueries, heads * shape.headRow));
  Index keyLength = arguments.getSize(task.sites.key, 2);
  Index queryLength = arguments.getSize(task.sites.query, 2);
  panelCount = 1;
  kernel.loop(
      kernel.mul(chunk, shape.keys), keyLength, kernel.mul(chunks, shape.keys),
      [&](Value first) {
        firstKey = first;
        keyCount = kernel.min(shape.keys, kernel.sub(keyLength, firstKey));
        beginTile();
        keySide = enterRows(pos::Side::key, firstKey, shape.keys);
        kernel.loop(0, queryLength, shape.queries, [&](Value firstOfBlock) {
          firstQuery = firstOfBlock;
          queryCount =
              kernel.min(shape.queries, kernel.sub(queryLength, firstQuery));
          groupEnd = kernel.roundUp(queryCount, shape.rows);
          Visibility block = classifyRows(firstQuery, shape.queries);
          kernel.when(block.some, [&] { emitBlock(); });
        });
        endTile();
      });
}

/// Stands at one head of the keys after the other: its sites, its panels of the
/// tile.
void HeadsBackward::forEachKeyHead(function_ref<void()> body) {
  kernel.loop(0, arguments.getSize(task.sites.key, 1), 1, [&](Value number) {
    kvHead = number;
    keyRows = panelOf(keyRowsOfAll, kvHead, shape.headRow);
    keys = {panelOf(keysOfAll, kvHead, shape.headRow),
            panelOf(keyGradients, kvHead, shape.headRow)};
    values = {panelOf(valuesOfAll, kvHead, shape.valueRow),
              panelOf(valueGradients, kvHead, shape.valueRow)};
    keySite.enterHead(batch, kvHead);
    valueSite.enterHead(batch, kvHead);
    body();
  });
}

void HeadsBackward::beginTile() {
  forEachKeyHead([&] { BackwardKernel::beginTile(); });
  headsSite.clearSums();
}

void HeadsBackward::endTile() {
  forEachKeyHead([&] { BackwardKernel::endTile(); });
  headsSite.storeSums();
}

void HeadsBackward::emitBlock() {
  // Entry of (query, key) in the tables: padding + (Lq - 1 - query) + key. The
  // window begins with the block's last query.
  Index entry = kernel.sub(arguments.getSize(task.sites.query, 2), firstQuery);
  entry = kernel.add(kernel.add(entry, firstKey),
                     task.sites.padding - shape.queries);
  window.load(batch, entry);
  gradientWindow.clear();
  loadStatistics();
  auto [low, high] = classifyGroups();
  emitProducts(low, high);
  emitVisibleLanes(low, high);
  emitPayloads(low, high);
  emitGradients(low, high);
  gradientWindow.addTo(task.tableGradients, chunk, batch, entry);
}

/// What the softmax needs of the rows of the block, head by head.
void HeadsBackward::loadStatistics() {
  kernel.loop(0, heads, 1, [&](Value number) {
    kernel.loop(0, shape.queries, kernel.width(), [&](Value row) {
      for (auto [tensor, to] : {std::pair(task.negativeShift, negativeShift),
                                {task.inverseSum, inverseSum},
                                {task.negativeDelta, delta}})
        kernel.storeVector(
            kernel.loadVector(arguments.getAddress(
                tensor, {batch, number, kernel.add(firstQuery, row)})),
            to, {kernel.mul(number, shape.queries), row});
    });
  });
}

//===----------------------------------------------------------------------===//
// Classes of groups
//===----------------------------------------------------------------------===//

BackwardKernel::Visibility HeadsBackward::classifyRows(Index first,
                                                       int64_t count) {
  if (variesWith(task.plan, pos::Axis::head)) {
    auto constant = [&](bool value) { return kernel.constantI1(value); };
    return {constant(false), constant(true)};
  }
  TileSide querySide = enterRows(pos::Side::query, first, count);
  return emitVisibility(querySide, kernel.add(first, count), keySide,
                        kernel.add(firstKey, shape.keys));
}

/// Stores the kinds of the groups of the block and gives the range of rows that
/// may see some key.
std::pair<Index, Index> HeadsBackward::classifyGroups() {
  Values range = kernel.loop(
      0, groupEnd, shape.rows,
      {kernel.constantI64(shape.queries), kernel.constantI64(0)},
      [&](Value group, ValueRange carried) -> Values {
        Visibility cell =
            classifyRows(kernel.add(firstQuery, group), shape.rows);
        Index kind =
            kernel.select(cell.all, TileKind::visible, TileKind::masked);
        kind = kernel.select(cell.some, kind, TileKind::hidden);
        kernel.store(
            kernel.value(kind),
            kernel.advance(kinds, {kernel.div(group, shape.rows)}, kernel.i64));
        Index low = carried[0], high = carried[1];
        return {
            kernel.value(kernel.select(cell.some, kernel.min(low, group), low)),
            kernel.value(
                kernel.select(cell.some, kernel.add(group, shape.rows), high))};
      });
  return {range[0], range[1]};
}

//===----------------------------------------------------------------------===//
// S and dP
//===----------------------------------------------------------------------===//

HeadsBackward::Rows HeadsBackward::prepareRows(unsigned tensor, int64_t dim,
                                               int64_t row, bool mustCopy,
                                               Value buffer,
                                               function_ref<void()> copy) {
  // In place, a product of columns reads whole groups of lanes.
  if (mustCopy || !task.element.isF32() || dim % shape.rows != 0) {
    copy();
    return Rows{buffer, row};
  }
  // The rows of a group must exist.
  Value isCopied =
      kernel.either(kernel.differ(arguments.getStride(tensor, 3), 1),
                    kernel.differ(groupEnd, queryCount));
  kernel.when(isCopied, [&] { copy(); });
  Value inPlace = arguments.getAddress(tensor, {batch, head, firstQuery});
  return Rows{kernel.selectF(isCopied, buffer, inPlace),
              kernel.select(isCopied, row, arguments.getStride(tensor, 2))};
}

HeadsBackward::Rows HeadsBackward::prepareQueries() {
  ArrayRef<RowMap> maps = task.plan.queryRows;
  return prepareRows(task.sites.query, shape.headDim, shape.headRow,
                     !maps.empty() || !shape.headParts.isSingle() ||
                         form.queryFactor != 1.0,
                     queries.rows, [&] { return copyQueries(); });
}

HeadsBackward::Rows HeadsBackward::prepareOutputGradients() {
  return prepareRows(
      task.outputGradients.front(), shape.valueDim, shape.valueRow,
      !shape.valueParts.isSingle(), outputGradients.rows, [&] {
        return copyParts(task.outputGradients, firstQuery, groupEnd, {},
                         querySite, outputGradients.rows);
      });
}

void HeadsBackward::emitProduct(const Rows &rows, Value packed, int64_t dim,
                                Index group, ValueRange initial, Value to) {
  SmallVector<TileRow> tileRows;
  for (int64_t r = 0; r < shape.rows; ++r)
    tileRows.push_back({kernel.advance(
        rows.base, {kernel.mul(kernel.add(group, r), rows.stride)})});
  for (int64_t r = shape.rows; r < 2 * shape.rows; ++r)
    kernel.prefetch(rows.base, {kernel.mul(kernel.add(group, r), rows.stride)},
                    dim, CacheLevel::First);
  RegisterTile tile;
  tile.rows = tileRows;
  tile.base = packed;
  tile.vectorStep = shape.keys;
  tile.vectors = shape.vectors;
  tile.count = dim;
  Values results = emitTile(kernel, tile, initial);
  for (auto [place, result] : llvm::enumerate(results))
    kernel.storeVector(result, to,
                       {static_cast<int64_t>(place) * kernel.width()});
}

void HeadsBackward::emitProducts(Index low, Index high) {
  kernel.loop(0, heads, 1, [&](Value number) {
    enterHead(number);
    Rows query = prepareQueries();
    Rows gradient = prepareOutputGradients();
    Values zeros(shape.rows * shape.vectors, kernel.splatF32(0));
    kernel.loop(low, high, shape.rows, [&](Value group) {
      emitProduct(query, panelOf(keysOfAll, kvHead, shape.headRow),
                  shape.headDim, group, zeros, scoresOf(scores, head, group));
      // The accumulators start at -delta.
      Values initial;
      Value from = kernel.advance(delta, {kernel.mul(head, shape.queries)});
      for (int64_t r = 0; r < shape.rows; ++r)
        initial.append(shape.vectors, kernel.loadBroadcast(from, {group, r}));
      emitProduct(gradient, panelOf(valuesOfAll, kvHead, shape.valueRow),
                  shape.valueDim, group, initial,
                  scoresOf(scoreGradients, head, group));
    });
  });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Stores which lanes a row sees. Gradients of the others become zero, so that
/// whatever stands there reaches no sum, and so do scores, unless other heads
/// see them: their payloads read the scores of all heads.
void HeadsBackward::maskRow(Index number, Index row) {
  for (int64_t v = 0; v < shape.vectors; ++v) {
    int64_t lane = v * kernel.width();
    site.enterCell(kernel.add(firstQuery, row), firstKey);
    site.setPoint(0, v);
    Value seen = emitVisible();
    Value zero = kernel.splatF32(0);
    kernel.storeVector(kernel.selectF(seen, kernel.splatF32(1), zero),
                       visibleOf(number, row), {lane});
    auto clearHidden = [&](Value tiles, Index head) {
      Value at = kernel.advance(scoresOf(tiles, head, row), {lane});
      kernel.storeVector(kernel.selectF(seen, kernel.loadVector(at), zero), at);
    };
    if (visibleStride)
      clearHidden(scoreGradients, number);
    else
      kernel.loop(0, heads, 1, [&](Value head) {
        clearHidden(scores, head);
        clearHidden(scoreGradients, head);
      });
  }
}

void HeadsBackward::emitVisibleLanes(Index low, Index high) {
  auto setRow = [&](Index number, Index row, Value value) {
    for (int64_t v = 0; v < shape.vectors; ++v)
      kernel.storeVector(value, visibleOf(number, row), {v * kernel.width()});
  };
  kernel.loop(0, visibleStride ? heads : 1, 1, [&](Value number) {
    if (visibleStride)
      site.enterHead(batch, Index(number));
    kernel.loop(low, kernel.min(high, queryCount), 1, [&](Value row) {
      Index kind = kernel.load(
          kernel.i64,
          kernel.advance(kinds, {kernel.div(row, shape.rows)}, kernel.i64));
      kernel.when(
          kernel.equal(kind, TileKind::visible),
          [&] { setRow(number, row, kernel.splatF32(1)); },
          [&] { maskRow(number, row); });
    });
  });
}

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

/// `group` is the first row that functions of hinges were computed for.
void HeadsBackward::moveTo(Index group, Index row, Index lane) {
  headsSite.enterCell(kernel.add(firstQuery, row), kernel.add(firstKey, lane));
  headsSite.setPoint(0, 0);
  headsSite.setEntry(kernel.add(kernel.sub(shape.queries - 1, row), lane));
  headsSite.setCellPlace(
      kernel.add(kernel.mul(kernel.sub(row, group), shape.keys), lane));
}

void HeadsBackward::emitPoint(Index row, Index lane) {
  Value score = kernel.advance(scoresOf(scores, 0, row), {lane});
  Value gradient = kernel.advance(scoresOf(scoreGradients, 0, row), {lane});
  Value seen = kernel.advance(visibleOf(0, row), {lane});
  Value shiftOfRow = kernel.advance(negativeShift, {row});
  Value inverseOfRow = kernel.advance(inverseSum, {row});
  pos::ScoreOp op = task.plan.score;
  Block &body = op.getBody().front();
  Value zero = kernel.splatF32(0);
  auto loadSeen = [&](int64_t h) {
    return kernel.compareF(arith::CmpFPredicate::UNE,
                           kernel.loadVector(seen, {h * visibleStride}), zero);
  };
  // Where masks differ, what one head sees takes the scores of all.
  Value isSeenByOne;
  for (int64_t h = 0; visibleStride && h < heads; ++h)
    isSeenByOne = kernel.either(isSeenByOne, loadSeen(h));
  Values arguments;
  for (int64_t h = 0; h < heads; ++h) {
    Value argument = kernel.loadVector(score, {h * tileStride});
    arguments.push_back(
        isSeenByOne ? kernel.selectF(isSeenByOne, argument, zero) : argument);
  }
  Values seeds;
  auto emitProbabilities = [&](HeadsEmitter &emitter) -> LogicalResult {
    FailureOr<Values> results =
        emitter.getAll(body.getTerminator()->getOperand(0));
    if (failed(results))
      return failure();
    // Loaded again: the payload leaves no register free.
    Value isSeen;
    for (int64_t h = 0; h < heads; ++h) {
      if (!isSeen || visibleStride)
        isSeen = loadSeen(h);
      Value exponent = form.emitExponent(
          kernel, (*results)[h],
          kernel.loadBroadcast(shiftOfRow, {h * shape.queries}));
      Value p =
          kernel.mulF(kernel.exp2(exponent),
                      kernel.loadBroadcast(inverseOfRow, {h * shape.queries}));
      p = kernel.selectF(isSeen, p, zero);
      kernel.storeVector(p, score, {h * tileStride});
      seeds.push_back(
          kernel.mulF(p, kernel.loadVector(gradient, {h * tileStride})));
    }
    return success();
  };
  auto getSeeds = [&](Index first, int64_t count) {
    return Values(ArrayRef<Value>(seeds).slice(first.getConstant(), count));
  };
  FailureOr<Values> pulled = emitHeadsPullback(
      kernel.builder, body, arguments, emitProbabilities, getSeeds, headsSite);
  if (failed(pulled))
    return kernel.check(failure());
  for (int64_t h = 0; h < heads; ++h)
    kernel.storeVector((*pulled)[h], gradient, {h * tileStride});
}

/// Rows [group, end); gradients of matrices are kept since row `step`.
void HeadsBackward::emitRows(Index step, Index group, Index end) {
  kernel.loop(group, end, 1, [&](Value row) {
    kernel.loop(0, shape.keys, kernel.width(), [&](Value lane) {
      headsSite.setStep(
          kernel.add(kernel.mul(kernel.sub(row, step), shape.keys), lane));
      moveTo(group, row, lane);
      emitPoint(row, lane);
    });
  });
}

/// Rows [step, end).
void HeadsBackward::emitGroups(Index step, Index end) {
  if (task.plan.hingeSums.empty()) {
    emitRows(step, step, end);
    return;
  }
  kernel.loop(step, end, shape.rows, [&](Value group) {
    Index last = kernel.min(kernel.add(group, shape.rows), end);
    auto moveToVector = [&](Index row, Index vector) {
      moveTo(group, kernel.add(group, row), kernel.mul(vector, kernel.width()));
    };
    hinges.fill(headsSite, moveToVector, kernel.sub(last, group));
    emitRows(step, group, last);
    kernel.loop(0, heads, 1, [&](Value number) {
      head = number;
      addHingeMoments();
    });
  });
}

void HeadsBackward::emitPayloads(Index low, Index high) {
  Index end = kernel.min(high, queryCount);
  kernel.loop(low, end, HeadsGradients::rows, [&](Value first) {
    Index last = kernel.min(kernel.add(first, HeadsGradients::rows), end);
    emitGroups(first, last);
    headsSite.addProducts(kernel.mul(kernel.sub(last, first), shape.keys));
  });
}

//===----------------------------------------------------------------------===//
// dV, dK and dQ
//===----------------------------------------------------------------------===//

/// gradient[row lanes][keys] += rows^T times rows [low, high) of `tile`.
void HeadsBackward::accumulate(const Rows &rows, Value tile, Value gradient,
                               int64_t row, Index low, Index high) {
  RegisterTile product;
  product.rowStep = rows.stride;
  product.base = tile;
  product.vectorStep = shape.keys;
  product.vectors = shape.vectors;
  product.count = kernel.sub(high, low);
  Value first = kernel.advance(rows.base, {kernel.mul(low, rows.stride)});
  kernel.loop(0, row, shape.rows, [&](Value lane) {
    Value at = kernel.advance(first, {lane});
    Value to = kernel.advance(gradient, {kernel.mul(lane, shape.keys)});
    SmallVector<TileRow> tileRows;
    for (int64_t r = 0; r < shape.rows; ++r)
      tileRows.push_back({at, r});
    product.rows = tileRows;
    addTile(kernel, product, to, shape.keys);
  });
}

void HeadsBackward::emitGradients(Index low, Index high) {
  Index end = kernel.min(high, queryCount);
  kernel.loop(0, heads, 1, [&](Value number) {
    enterHead(number);
    Rows gradient = prepareOutputGradients();
    Rows query = prepareQueries();
    // In place, rows end with the head dim.
    auto lanesOf = [&](int64_t dim) { return llvm::alignTo(dim, shape.rows); };
    accumulate(gradient, scoresOf(scores, head, low),
               panelOf(valueGradients, kvHead, shape.valueRow),
               lanesOf(shape.valueDim), low, end);
    accumulate(query, scoresOf(scoreGradients, head, low),
               panelOf(keyGradients, kvHead, shape.headRow),
               lanesOf(shape.headDim), low, end);
    emitQueryGradient(low, high);
  });
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes].
void HeadsBackward::emitQueryGradient(Index low, Index high) {
  int64_t row = shape.headRow;
  Value base = arguments.getAddress(*task.queryGradient,
                                    {chunk, batch, head, firstQuery});
  Value slabs = panelOf(keyRowsOfAll, kvHead, row);
  kernel.loop(low, high, shape.rows, [&](Value group) {
    Value from = scoresOf(scoreGradients, head, group);
    Value to = kernel.advance(base, {kernel.mul(group, row)});
    SmallVector<TileRow> tileRows;
    for (int64_t r = 0; r < shape.rows; ++r)
      tileRows.push_back({from, r * shape.keys});
    kernel.prefetch(to, {shape.rows * row}, shape.rows * row,
                    CacheLevel::First);
    forEachSlab([&](Index lane, int64_t vectors) {
      RegisterTile tile;
      tile.rows = tileRows;
      tile.base = getSlab(slabs, lane);
      tile.vectorStep = vectors * kernel.width();
      tile.vectors = vectors;
      tile.count = keyCount;
      addTile(kernel, tile, kernel.advance(to, {lane}), row);
    });
  });
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

void codegen::createHeadsBackward(const Lowering &lowering, StringRef suffix,
                                  const BackwardTask &task,
                                  const VectorTarget &target) {
  ScratchLayout layout;
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return HeadsBackward::getItems(kernel, arguments, task);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    HeadsBackward backward(kernel, arguments, task, layout, scratch);
    items.forEach([&](const Item &item) { backward.emitItem(item); });
  };
  // Called after `run`, which hands the memory out.
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layout.getBytes());
  };
  createKernel(lowering, suffix, task.operands, target,
               {items, scratchBytes, run});
}
