//===- BackwardLoopNest.cpp - Five products over tiles of keys
//---------------===//
//
// See BackwardKernel.h for the loop nest. S, dP, dV, dK and dQ are calls of one
// register tile. Whether a cell (group of rows, panel of keys) is computed, and
// with or without its mask, is asked of the mask's bounds; hidden cells are
// zero in the buffers, and products leave out hidden groups and panels at both
// ends of a block.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

BackwardKernel::BackwardKernel(KernelBuilder &kernel, ArgumentBlock &arguments,
                               const BackwardTask &task, ScratchLayout &layout,
                               Value scratch)
    : kernel(kernel), arguments(arguments), task(task), shape(task.shape),
      site(kernel, arguments, task),
      mask(kernel, arguments, site, task.plan, task.sites),
      cells(kernel, arguments, task.plan, task.sites,
            kernel.advance(scratch,
                           {layout.reserve(getCellHoists(task.plan).size() *
                                           shape.rows * shape.panel)}),
            shape.rows, shape.vectors),
      hinges(
          kernel, arguments, task.plan, task.sites,
          kernel.advance(scratch, {layout.reserve(HingeCells::countWords(
                                      task.plan, shape.rows * shape.panel))}),
          shape.rows, shape.vectors, /*hasGradients=*/true),
      querySite(kernel, arguments, task.plan, task.sites,
                pos::RowOperand::query),
      keySite(kernel, arguments, task.plan, task.sites, pos::RowOperand::key,
              task.tableGradients, /*isPartial=*/true),
      valueSite(kernel, arguments, task.plan, task.sites,
                pos::RowOperand::value, task.tableGradients,
                /*isPartial=*/true),
      sums(kernel, arguments, task, layout, scratch),
      form(task.plan, shape.dot) {
  site.setCells(&cells);
  site.setHinges(&hinges);
  auto reserve = [&](int64_t words) {
    return kernel.advance(scratch, {layout.reserve(words)});
  };
  int64_t longest = std::max(shape.headRow, shape.valueRow);
  rowsBuffer = reserve(shape.keys * longest);
  keyRows = reserve(shape.keys * getWords(shape.headRow));
  mappedRow = reserve(longest);
  keys = {reserve(shape.keys * getWords(shape.headRow)),
          reserve(shape.keys * shape.headRow)};
  values = {reserve(shape.keys * getWords(shape.valueRow)),
            reserve(shape.keys * shape.valueRow)};
  auto reserveStreamed = [&](int64_t row) -> Streamed {
    int64_t words = shape.queries * getWords(row);
    Value rows = reserve(words);
    return {rows, shape.dot ? reserve(words) : rows};
  };
  queries = reserveStreamed(shape.headRow);
  outputGradients = reserveStreamed(shape.valueRow);
  gradientTile = sums.reserveTile();
  int64_t pairs = shape.queries / 2 * shape.keys;
  probabilities = reserve(shape.dot ? pairs : shape.queries * shape.stride);
  scoreGradients = shape.dot ? reserve(pairs) : gradientTile;
  scoreGradientRows = shape.dot ? reserve(pairs) : gradientTile;
  cellProbabilities = reserve(shape.rows * shape.panel);
  cellScores = reserve(shape.rows * shape.panel);
  cellSlopes = reserve(rollsRows() ? shape.rows * shape.panel : 0);
  int64_t groups = shape.queries / shape.rows;
  if (!task.plan.rowTables.empty() || !task.plan.weightedRows.empty() ||
      !task.plan.scans.empty()) {
    Value sums = reserve(task.plan.scans.size() * shape.rows * shape.panel);
    site.scans.setMemory(sums);
    site.products.setMemory(reserve(2 * kernel.width()));
  }
  reserveOffsets(layout, scratch);
  lowPanels = reserve(2 * groups);
  highPanels = reserve(2 * groups);
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// At most `unit` rows of a side that exist; `first` is a multiple of `unit`.
TileSide BackwardKernel::enterRows(pos::Side side, Index first, int64_t unit) {
  bool isKey = side == pos::Side::key;
  Index length =
      arguments.getSize(isKey ? task.sites.key : task.sites.query, 2);
  return mask.enter(side, first, kernel.min(unit, kernel.sub(length, first)),
                    unit);
}

/// `queryEnd` and `keyEnd` are the ends of the rectangle as it is computed,
/// which may lie past the last row.
BackwardKernel::Visibility BackwardKernel::emitVisibility(const TileSide &query,
                                                          Index queryEnd,
                                                          const TileSide &key,
                                                          Index keyEnd) {
  // A rectangle is whole if all of it exists and is visible.
  Index queryLength = arguments.getSize(task.sites.query, 2);
  Index keyLength = arguments.getSize(task.sites.key, 2);
  using arith::CmpIPredicate;
  Value exists =
      kernel.both(kernel.compare(CmpIPredicate::sle, queryEnd, queryLength),
                  kernel.compare(CmpIPredicate::sle, keyEnd, keyLength));
  if (!task.plan.mask)
    return {exists, kernel.constantI1(true)};
  TileClass known = mask.classify(query, key);
  return {known.certain ? kernel.both(exists, known.certain)
                        : kernel.constantI1(false),
          known.possible ? known.possible : kernel.constantI1(true)};
}

//===----------------------------------------------------------------------===//
// Loop nest
//===----------------------------------------------------------------------===//

ItemSpace BackwardKernel::getItems(KernelBuilder &kernel,
                                   ArgumentBlock &arguments,
                                   const BackwardTask &task) {
  return ItemSpace(kernel, {arguments.getSize(task.sites.key, 0),
                            arguments.getSize(task.sites.key, 1),
                            arguments.getSize(*task.queryGradient, 0)});
}

void BackwardKernel::emitItem(const Item &item) {
  Index keyHeads = arguments.getSize(task.sites.key, 1);
  Index group = kernel.div(arguments.getSize(task.sites.query, 1), keyHeads);
  batch = item[0];
  kvHead = item[1];
  chunk = item[2];
  site.enterItem(chunk, kvHead);
  keySite.enterHead(batch, kvHead);
  valueSite.enterHead(batch, kvHead);
  Index firstHead = kernel.mul(kvHead, group);
  Index paddedQueries = arguments.getSize(*task.queryGradient, 3);
  kernel.clear(
      arguments.getAddress(*task.queryGradient, {chunk, batch, firstHead}),
      kernel.mul(kernel.mul(group, paddedQueries), shape.headRow));
  clearInPlaceGradients();
  return emitSweeps(firstHead, group);
}

/// The item's partial sums of what is read where tables do not hold the
/// offsets in use.
void BackwardKernel::clearInPlaceGradients() {
  if (task.inPlaceGradients.empty())
    return;
  OffsetRange range(kernel, arguments, *task.sites.offsetRange);
  kernel.when(
      range.emitHasTables(), [] {},
      [&] {
        for (unsigned tensor : task.inPlaceGradients) {
          Index entries = arguments.getSize(tensor, 3);
          Value sums = arguments.getAddress(tensor, {chunk, batch, kvHead});
          kernel.loop(0, entries, kernel.width(), [&](Value entry) {
            kernel.storePart(
                kernel.zero(kernel.vf64),
                kernel.advance(sums, {entry}, kernel.f64),
                kernel.min(kernel.width(), kernel.sub(entries, entry)));
          });
        }
      });
}

/// All tiles of the chunk. With scans there is one chunk.
void BackwardKernel::emitTiles(Index firstHead, Index group) {
  Index chunks = arguments.getSize(*task.queryGradient, 0);
  Index keyLength = arguments.getSize(task.sites.key, 2);
  kernel.loop(kernel.mul(chunk, shape.keys), keyLength,
              kernel.mul(chunks, shape.keys), [&](Value first) {
                firstKey = inScanOrder(first, keyLength, shape.keys);
                keyCount =
                    kernel.min(shape.keys, kernel.sub(keyLength, firstKey));
                panelCount = kernel.ceilDiv(keyCount, shape.panel);
                beginTile();
                kernel.loop(firstHead, kernel.add(firstHead, group), 1,
                            [&](Value value) {
                              head = value;
                              emitHead();
                            });
                if (site.scans.getSweep() != BackwardScans::Sweep::Totals)
                  endTile();
              });
}

void BackwardKernel::emitHead() {
  site.enterHead(batch, head);
  querySite.enterHead(batch, head);
  Index queryLength = arguments.getSize(task.sites.query, 2);
  TileSide keySide = enterRows(pos::Side::key, firstKey, shape.keys);
  kernel.loop(0, queryLength, shape.queries, [&](Value first) {
    firstQuery = first;
    queryCount = kernel.min(shape.queries, kernel.sub(queryLength, firstQuery));
    groupEnd = kernel.roundUp(queryCount, shape.rows);
    Visibility block = emitVisibility(
        enterRows(pos::Side::query, firstQuery, shape.queries),
        kernel.add(firstQuery, shape.queries), keySide,
        kernel.add(firstKey, kernel.mul(panelCount, shape.panel)));
    if (site.scans.getSweep() == BackwardScans::Sweep::Totals)
      if (Value done = site.scans.emitSaturated(firstQuery, shape.queries))
        block.some = kernel.selectF(done, kernel.constantI1(false), block.some);
    kernel.when(block.some, [&]() { emitBlock(block.all); });
  });
}

void BackwardKernel::emitBlock(Value isWhole) {
  beginBlock();
  beginOffsetBlock();
  Value none = kernel.constantI64(0);
  kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
    Index number = kernel.div(group, shape.rows);
    kernel.store(kernel.value(panelCount),
                 kernel.advance(lowPanels, {number}, kernel.i64));
    kernel.store(none, kernel.advance(highPanels, {number}, kernel.i64));
  });
  bool onlyTotals = site.scans.getSweep() == BackwardScans::Sweep::Totals;
  kernel.loop(0, panelCount, 1, [&](Value step) {
    Index panel = inScanOrder(step, panelCount, 1);
    TileSide panelKeys = enterRows(
        pos::Side::key, kernel.add(firstKey, kernel.mul(panel, shape.panel)),
        shape.panel);
    // The groups of rows that see some of the panel lie in [low, high).
    Values hull =
        kernel.loop(0, groupEnd, shape.rows, {kernel.value(groupEnd), none},
                    [&](Value group, ValueRange hull) {
                      return emitGroup(group, panel, panelKeys, isWhole, hull);
                    });
    Index low = hull[0], high = hull[1];
    if (onlyTotals)
      return;
    kernel.when(kernel.less(low, high), [&]() {
      accumulate(values, outputGradients, probabilities, shape.valueRow, panel,
                 low, high);
      accumulate(keys, queries, scoreGradients, shape.headRow, panel, low,
                 high);
    });
  });
  if (onlyTotals)
    return;
  emitQueryGradient();
  emitOffsetGradients();
  sums.emitBlock(site, gradientTile,
                 {chunk, firstQuery, firstKey, groupEnd,
                  kernel.mul(panelCount, shape.panel)});
}

/// Asks for a cell's share of the rows that the block adds to when its cells
/// are done, and of those that the next block copies: after the last one, the
/// next tile's first.
void BackwardKernel::prefetchShare(Index group, Index panel) {
  RowPrefetch rows;
  Index groups = kernel.div(groupEnd, shape.rows);
  rows.part =
      kernel.add(kernel.mul(panel, groups), kernel.div(group, shape.rows));
  rows.parts = kernel.mul(panelCount, groups);
  auto ask = [&](unsigned tensor, ArrayRef<Index> outer, Index first,
                 int64_t dim) {
    rows.tensor = tensor;
    rows.outer.assign(outer.begin(), outer.end());
    rows.first = first;
    rows.dim = dim;
    prefetchRows(kernel, arguments, rows);
  };
  rows.count = groupEnd;
  ask(*task.queryGradient, {chunk, batch, head}, firstQuery, shape.headRow);
  rows.count = shape.queries;
  Index next = kernel.add(firstQuery, shape.queries);
  next = kernel.select(
      kernel.less(next, arguments.getSize(task.sites.query, 2)), next, 0);
  ask(task.sites.query, {batch, head}, next, shape.headParts.get().front().dim);
  for (auto [part, tensor] :
       llvm::zip_equal(shape.valueParts.get(), task.outputGradients))
    ask(tensor, {batch, head}, next, part.dim);
}

Values BackwardKernel::emitGroup(Index group, Index panel,
                                 const TileSide &panelKeys, Value isWhole,
                                 ValueRange hull) {
  Index query = kernel.add(firstQuery, group);
  Index key = panelKeys.first;
  Visibility cell = emitVisibility(
      enterRows(pos::Side::query, query, shape.rows),
      kernel.add(query, shape.rows), panelKeys, kernel.add(key, shape.panel));
  site.enterCell(query, key);
  prefetchShare(group, panel);
  return kernel.choose(
      kernel.either(isWhole, cell.some), {kernel.i64, kernel.i64},
      [&]() -> Values {
        auto moveTo = [&](Index row, Index vector) {
          site.setPoint(row, vector);
        };
        cells.fill(site, moveTo);
        hinges.fill(site, moveTo);
        emitOffsetProducts(group, panel);
        kernel.when(
            kernel.either(isWhole, cell.all),
            [&]() { emitCells(group, panel, /*isMasked=*/false); },
            [&]() { emitCells(group, panel, /*isMasked=*/true); });
        Index number = kernel.div(group, shape.rows);
        Value lowest = kernel.advance(lowPanels, {number}, kernel.i64);
        Value highest = kernel.advance(highPanels, {number}, kernel.i64);
        Index low = kernel.load(kernel.i64, lowest);
        kernel.store(kernel.value(kernel.min(low, panel)), lowest);
        Index high = kernel.load(kernel.i64, highest);
        kernel.store(kernel.value(kernel.max(high, kernel.add(panel, 1))),
                     highest);
        return {kernel.value(kernel.min(Index(hull[0]), group)),
                kernel.value(kernel.add(group, shape.rows))};
      },
      [&]() -> Values {
        clearCell(group, panel);
        return {hull[0], hull[1]};
      });
}

//===----------------------------------------------------------------------===//
// Products of the second half
//===----------------------------------------------------------------------===//

/// gradient[row lanes][keys] += columns^T times rows [low, high) of `scores`.
void BackwardKernel::accumulate(const Packed &packed, const Streamed &streamed,
                                Value scores, int64_t row, Index panel,
                                Index low, Index high) {
  // A step of the contraction is a row, or a pair of rows.
  int64_t perStep = shape.dot ? 2 : 1;
  int64_t stride = shape.dot ? shape.keys : shape.stride;
  Index firstStep = kernel.div(low, perStep);
  Value first = kernel.advance(streamed.columns, {kernel.mul(firstStep, row)});
  Value gradient =
      kernel.advance(packed.gradient, {kernel.mul(panel, row * shape.panel)});
  RegisterTile tile;
  tile.rowStep = row;
  tile.base = kernel.advance(
      scores, {kernel.mul(firstStep, stride), kernel.mul(panel, shape.panel)});
  tile.vectorStep = stride;
  tile.vectors = shape.vectors;
  tile.count = kernel.div(kernel.sub(high, low), perStep);
  tile.isWhole = true;
  tile.pairs = shape.dot;
  kernel.loop(0, row, shape.rows, [&](Value lane) {
    Value at = kernel.advance(first, {lane});
    Value to = kernel.advance(gradient, {kernel.mul(lane, shape.panel)});
    SmallVector<TileRow> rows;
    for (int64_t r = 0; r < shape.rows; ++r)
      rows.push_back({at, r});
    tile.rows = rows;
    addTile(kernel, tile, to, shape.panel);
  });
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes], slab by slab: a slab of K
/// stays in the first cache while rows of dS pass.
void BackwardKernel::emitQueryGradient() {
  int64_t row = shape.headRow, perStep = shape.perStep();
  int64_t stride = shape.dot ? shape.keys / 2 : shape.stride;
  Value base = arguments.getAddress(*task.queryGradient,
                                    {chunk, batch, head, firstQuery});
  forEachSlab([&](Index lane, int64_t vectors) {
    Value slab = getSlab(keyRows, lane);
    kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
      Index number = kernel.div(group, shape.rows);
      Index low = kernel.load(kernel.i64,
                              kernel.advance(lowPanels, {number}, kernel.i64));
      Index high = kernel.load(
          kernel.i64, kernel.advance(highPanels, {number}, kernel.i64));
      Index firstStep = kernel.mul(low, shape.panel / perStep);
      Value scores = kernel.advance(scoreGradientRows,
                                    {kernel.mul(group, stride), firstStep});
      SmallVector<TileRow> rows;
      for (int64_t r = 0; r < shape.rows; ++r)
        rows.push_back({scores, r * stride});
      RegisterTile tile;
      tile.rows = rows;
      tile.vectorStep = vectors * kernel.width();
      tile.vectors = vectors;
      tile.count = kernel.mul(kernel.sub(high, low), shape.panel / perStep);
      tile.isWhole = true;
      tile.pairs = shape.dot;
      kernel.when(kernel.less(low, high), [&] {
        tile.base =
            kernel.advance(slab, {kernel.mul(firstStep, tile.vectorStep)});
        addTile(kernel, tile,
                kernel.advance(base, {kernel.mul(group, row), lane}), row);
      });
    });
  });
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

void codegen::createBackwardKernel(const Lowering &lowering, StringRef suffix,
                                   const BackwardTask &task,
                                   const VectorTarget &target) {
  ScratchLayout layout;
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return BackwardKernel::getItems(kernel, arguments, task);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    BackwardKernel backward(kernel, arguments, task, layout, scratch);
    items.forEach([&](const Item &item) { backward.emitItem(item); });
  };
  // Called after `run`, which hands the memory out.
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layout.getBytes());
  };
  createKernel(lowering, suffix, task.operands, target,
               {items, scratchBytes, run});
}
