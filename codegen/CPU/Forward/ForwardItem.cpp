//===- ForwardItem.cpp - Products and softmax of a forward item -----------===//

#include "codegen/CPU/Forward/ForwardItem.h"
#include "codegen/Payload/Payload.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

int64_t ForwardScratch::reserve(int64_t count) {
  int64_t place = words;
  words += llvm::alignTo(count, 16);
  return place;
}

ForwardScratch::ForwardScratch(const ForwardTask &task,
                               const VectorTarget &target)
    : words(0) {
  int64_t lanes = task.maxPanels * task.panel;
  query = reserve(task.queryWords * lanes);
  output = reserve(task.outputRows * lanes);
  maximum = reserve(lanes);
  sum = reserve(lanes);
  scores = reserve(task.scoreTiles * task.scoreStride);
  rows = reserve(target.width * task.keyWords);
  keys = reserve(task.keys * task.keyWords);
  values =
      reserve(task.keys * getCopiedRowWords(target, task.valueDim, task.pairs));
  pairs = reserve(task.pairs ? task.keys / 2 * task.valueWords : 0);
  mappedRow = reserve(
      llvm::alignTo(std::max(task.headDim, task.valueDim), 2 * target.width));
  positions = reserve(ScoreSite::packedAxes * lanes);
  cells = reserve(getCellHoists(task.plan).size() * task.rows * task.panel);
  hinges = reserve(HingeCells::countWords(task.plan, task.rows * task.panel));
  scans = reserve(task.plan.scans.size() * lanes);
  this->lanes = reserve(2 * target.width);
  results = reserve(task.statistics ? 2 * task.panel : 0);
  const OffsetShape &offsets = task.offsetShape;
  int64_t count = task.plan.offsetProducts.size();
  offsetSize = (task.keys + task.panel) * task.panel;
  offsetQueries = reserve(count * offsets.row * lanes);
  offsetProducts = reserve(count * offsetSize);
  offsetCells = reserve(count * task.rows * task.panel);
  offsetRows = reserve(count ? target.width * offsets.row : 0);
  offsetAddend = reserve(count ? offsets.row : 0);
  offsetEnd = reserve(count ? 2 : 0);
}

ForwardItem::ForwardItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                         const ForwardTask &task, const ForwardScratch &scratch,
                         Value memory)
    : kernel(kernel), arguments(arguments), task(task), scratch(scratch),
      memory(memory),
      site(kernel, arguments, task.plan, task.sites, task.vectors),
      cells(kernel, arguments, task.plan, task.sites, at(scratch.cells),
            task.rows, task.vectors),
      hinges(kernel, arguments, task.plan, task.sites, at(scratch.hinges),
             task.rows, task.vectors, /*hasGradients=*/false),
      mask(kernel, arguments, site, task.plan, task.sites),
      querySite(kernel, arguments, task.plan, task.sites,
                pos::RowOperand::query),
      keySite(kernel, arguments, task.plan, task.sites, pos::RowOperand::key),
      valueSite(kernel, arguments, task.plan, task.sites,
                pos::RowOperand::value),
      form(task.plan, task.pairs) {
  site.setCells(&cells);
  site.setHinges(&hinges);
  site.setOffsetCells(at(scratch.offsetCells), task.rows);
}

Value ForwardItem::at(int64_t place, ArrayRef<Index> offsets) {
  SmallVector<Index> all(offsets);
  all.push_back(place);
  return kernel.advance(memory, all);
}

void ForwardItem::emit(Index outer, Index tile, Index panels) {
  unsigned query = task.sites.query, key = task.sites.key;
  Index heads = arguments.getSize(query, 1);
  batch = kernel.div(outer, heads);
  head = kernel.rem(outer, heads);
  kvHead = kernel.div(head, kernel.div(heads, arguments.getSize(key, 1)));
  Index capacity = kernel.mul(panels, task.panel);
  firstQuery = kernel.mul(tile, capacity);
  queryCount =
      kernel.min(capacity, kernel.sub(arguments.getSize(query, 2), firstQuery));
  panelCount = kernel.ceilDiv(queryCount, task.panel);
  site.enterHead(batch, head);
  querySite.enterHead(batch, head);
  keySite.enterHead(batch, kvHead);
  valueSite.enterHead(batch, kvHead);
  site.setKeyHead(kvHead);
  site.packPositions(firstQuery, kernel.mul(panelCount, task.panel),
                     task.maxPanels * task.panel, at(scratch.positions));
  packQueries();
  packOffsetQueries();
  clearBuckets();

  Index keyRows = arguments.getSize(key, 2);
  TileSide rows = mask.enter(pos::Side::query, firstQuery, queryCount,
                             task.maxPanels * task.panel);
  kernel.loop(0, keyRows, task.keys, [&](Value step) {
    firstKey = inScanOrder(step, keyRows, task.keys);
    Index first = firstKey;
    keyCount = kernel.min(task.keys, kernel.sub(keyRows, first));
    blockKeys = mask.enter(pos::Side::key, firstKey, keyCount, task.keys);
    TileClass tile = mask.classify(rows, blockKeys);
    whenPossible(tile, [&] { emitBlock(); });
  });
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    storePanel(panel, kernel.mul(panel, task.panel));
  });
}

void ForwardItem::emitBlock() {
  prepareKeys();
  prepareValues();
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    Index first = kernel.mul(panel, task.panel);
    Index count = kernel.min(task.panel, kernel.sub(queryCount, first));
    Index row = kernel.add(firstQuery, first);
    site.enterPanel(row, first);
    TileSide rows = mask.enter(pos::Side::query, row, count, task.panel);
    TileClass tile = mask.classify(rows, blockKeys);
    whenPossible(tile, [&] { emitPanel(panel, rows, tile); });
  });
}

/// Asks for rows of the next block of keys, of the first one after the last:
/// the share of the group of keys at `place`, of all there are.
void ForwardItem::prefetchShare(Index place, Index all) {
  bool isLeftward = task.plan.isLeftward();
  Index length = arguments.getSize(task.sites.key, 2);
  Index next = isLeftward ? kernel.sub(firstKey, task.keys)
                          : kernel.add(firstKey, task.keys);
  Index begin =
      isLeftward
          ? kernel.mul(kernel.div(kernel.sub(length, 1), task.keys), task.keys)
          : Index(0);
  Value exists = isLeftward ? kernel.less(-1, next) : kernel.less(next, length);
  RowPrefetch rows;
  rows.outer = {batch, kvHead};
  rows.first = kernel.select(exists, next, begin);
  rows.count = task.keys;
  rows.part = kernel.div(place, task.rows);
  rows.parts = kernel.ceilDiv(all, task.rows);
  rows.tensor = task.sites.key;
  rows.dim = task.headParts.get().front().dim;
  prefetchRows(kernel, arguments, rows);
  for (auto [part, tensor] :
       llvm::zip_equal(task.values.get(), task.sites.values)) {
    rows.tensor = tensor;
    rows.dim = part.dim;
    prefetchRows(kernel, arguments, rows);
  }
}

void ForwardItem::emitPanel(Index panel, const TileSide &rows,
                            const TileClass &block) {
  Value maximum = statistics(scratch.maximum, panel);
  Values carried;
  for (int64_t v = 0; v < task.vectors; ++v)
    carried.push_back(kernel.loadVector(maximum, {v * kernel.width()}));
  if (task.plan.mask) { // the range of keys that some query may see
    carried.push_back(kernel.constantI64(task.keys));
    carried.push_back(kernel.constantI64(0));
  }
  query = at(scratch.query, {kernel.mul(panel, task.queryWords * task.panel)});
  scanSums = statistics(scratch.scans, panel);
  enterOffsetPanel(panel,
                   kernel.add(firstQuery, kernel.mul(panel, task.panel)));
  Values last = kernel.loop(
      0, keyCount, task.rows, carried,
      [&](Value step, ValueRange values) -> Values {
        ValueRange maxima = values.take_front(task.vectors);
        Index group = inScanOrder(step, keyCount, task.rows);
        prefetchShare(kernel.add(kernel.mul(panel, keyCount), step),
                      kernel.mul(panelCount, keyCount));
        Values next;
        if (!task.plan.mask) {
          emitGroup(group, maxima, TileClass(), next);
          return next;
        }
        TileSide columns = mask.enter(
            pos::Side::key, kernel.add(firstKey, group), task.rows, task.rows);
        TileClass tile = mask.classify(rows, columns);
        if (block.certain && tile.certain)
          tile.certain = kernel.either(block.certain, tile.certain);
        next = kernel.choose(
            getPossible(tile), maxima.getTypes(),
            [&] {
              Values inner;
              emitGroup(group, maxima, tile, inner);
              return inner;
            },
            [&] {
              hideGroup(group);
              return Values(maxima);
            });
        Index low = values[task.vectors], high = values[task.vectors + 1];
        Value isPossible = getPossible(tile);
        next.push_back(kernel.value(
            kernel.select(isPossible, kernel.min(low, group), low)));
        Index end = kernel.max(high, kernel.add(group, task.rows));
        next.push_back(kernel.value(kernel.select(isPossible, end, high)));
        return next;
      });
  ValueRange maxima = ValueRange(last).take_front(task.vectors);
  if (!task.plan.mask)
    return emitSoftmax(panel, maxima, 0, keyCount);
  Index low = last[task.vectors];
  Index high = kernel.min(last[task.vectors + 1], keyCount);
  kernel.when(kernel.less(low, high),
              [&] { emitSoftmax(panel, maxima, low, high); });
}

//===----------------------------------------------------------------------===//
// Tile classes
//===----------------------------------------------------------------------===//

Value ForwardItem::getPossible(const TileClass &tile) {
  return tile.possible ? tile.possible : kernel.constantI1(true);
}

void ForwardItem::whenPossible(const TileClass &tile,
                               function_ref<void()> body) {
  if (tile.possible)
    kernel.when(tile.possible, body);
  else
    body();
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Stores the scores of a group that no query of the panel sees.
void ForwardItem::hideGroup(Index group) {
  Value hidden = kernel.splatF32(hiddenScore);
  Value to = at(scratch.scores, {scoreOffset, kernel.mul(group, task.panel)});
  for (int64_t vector = 0; vector < task.rows * task.vectors; ++vector)
    kernel.storeVector(hidden, to, {vector * kernel.width()});
}

void ForwardItem::emitGroup(Index group, ValueRange maxima,
                            const TileClass &tile, Values &results) {
  // Before the products, which then stay in registers until they are scores.
  auto moveTo = [&](Index row, Index vector) {
    site.setPoint(vector, kernel.add(kernel.add(firstKey, group), row), row);
  };
  cells.fill(site, moveTo);
  hinges.fill(site, moveTo);
  Value first = kernel.advance(keys, {kernel.mul(group, task.keyWords)});
  SmallVector<TileRow> rows;
  for (int64_t row = 0; row < task.rows; ++row)
    rows.push_back({first, row * task.keyWords});
  RegisterTile product;
  product.rows = rows;
  product.base = query;
  product.vectorStep = task.panel;
  product.vectors = task.vectors;
  product.count = task.queryWords;
  product.pairs = task.pairs;
  Values zeros(task.rows * task.vectors, kernel.splatF32(0));
  emitOffsetProducts(group);
  Values products = emitTile(kernel, product, zeros);

  Value isWhole = kernel.compare(arith::CmpIPredicate::sle,
                                 kernel.add(group, task.rows), keyCount);
  if (task.plan.mask)
    isWhole = tile.certain ? kernel.both(isWhole, tile.certain)
                           : kernel.constantI1(false);
  auto finish = [&](bool isMasked) {
    Values next(maxima);
    finishScores(products, group, isMasked, next);
    return next;
  };
  results = kernel.choose(
      isWhole, maxima.getTypes(), [&] { return finish(false); },
      [&] { return finish(true); });
}

//===----------------------------------------------------------------------===//
// Softmax and output
//===----------------------------------------------------------------------===//

void ForwardItem::emitSoftmax(Index panel, ValueRange maxima, Index low,
                              Index high) {
  int64_t width = kernel.width();
  Value maximum = statistics(scratch.maximum, panel);
  Value sum = statistics(scratch.sum, panel);
  // Sums of a block start at zero, and two of them take turns: the sum of a
  // long row is one of short ones.
  Values alpha, shift, before, sums(2 * task.vectors, kernel.splatF32(0));
  for (int64_t v = 0; v < task.vectors; ++v) {
    // Queries that have seen no key yet: their scores are all -inf.
    Value isSeen = kernel.compareF(arith::CmpFPredicate::UNE, maxima[v],
                                   kernel.splatF32(hiddenScore));
    Value most = kernel.selectF(isSeen, maxima[v], kernel.splatF32(0));
    Value newShift = form.emitShift(kernel, most);
    Value oldShift =
        form.emitShift(kernel, kernel.loadVector(maximum, {v * width}));
    alpha.push_back(kernel.exp2(kernel.subF(oldShift, newShift)));
    shift.push_back(kernel.subF(kernel.splatF32(0), newShift));
    before.push_back(
        kernel.mulF(kernel.loadVector(sum, {v * width}), alpha.back()));
    kernel.storeVector(maxima[v], maximum, {v * width});
  }
  scaleBuckets(panel, alpha);
  // Two rows at a time. An odd last row has a partner, which is hidden.
  sums = kernel.loop(low, high, 2, sums, [&](Value row, ValueRange carried) {
    Values next(carried.drop_front(task.vectors));
    Values weights;
    for (int64_t u = 0; u < 2; ++u) {
      Value from = at(scratch.scores, {scoreOffset, kernel.mul(row, task.panel),
                                       u * task.panel});
      for (int64_t v = 0; v < task.vectors; ++v) {
        Value score = kernel.loadVector(from, {v * width});
        weights.push_back(kernel.exp2(
            form.emitExponent(kernel, score, shift[v]), task.pairs));
        if (!task.pairs)
          kernel.storeVector(weights.back(), from, {v * width});
        addToBuckets(panel, kernel.add(row, u), v, weights.back());
      }
    }
    for (int64_t v = 0; v < task.vectors; ++v) // pairs: half as many roundings
      next.push_back(kernel.addF(
          carried[v], kernel.addF(weights[v], weights[task.vectors + v])));
    if (task.pairs) // in place: pair i lies where rows 2i and 2i + 1 were read
      for (int64_t v = 0; v < task.vectors; ++v)
        kernel.storeVector(
            kernel.pairRows(weights[v], weights[task.vectors + v]),
            at(scratch.scores,
               {scoreOffset, kernel.mul(kernel.div(row, 2), task.panel),
                v * width}));
    return next;
  });
  for (int64_t v = 0; v < task.vectors; ++v)
    kernel.storeVector(
        kernel.addF(before[v], kernel.addF(sums[v], sums[task.vectors + v])),
        sum, {v * width});

  Value output =
      at(scratch.output, {kernel.mul(panel, task.outputRows * task.panel)});
  int64_t whole = task.valueDim / task.rows * task.rows;
  if (whole)
    kernel.loop(0, whole, task.rows, [&](Value column) {
      emitOutput(output, task.rows, column, alpha, low, high);
    });
  if (whole < task.valueDim)
    emitOutput(output, task.valueDim - whole, whole, alpha, low, high);
}

/// O^T = O^T * alpha + V^T P for `rows` columns of V.
void ForwardItem::emitOutput(Value output, int64_t rows, Index column,
                             ValueRange alpha, Index low, Index high) {
  int64_t width = kernel.width();
  Value to = kernel.advance(output, {kernel.mul(column, task.panel)});
  Values initial;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t v = 0; v < task.vectors; ++v)
      initial.push_back(kernel.mulF(
          kernel.loadVector(to, {row * task.panel + v * width}), alpha[v]));
  Index first = task.pairs ? kernel.div(low, 2) : low;
  Index count = kernel.sub(high, low);
  Value from =
      kernel.advance(values, {kernel.mul(first, task.valueWords), column});
  SmallVector<TileRow> tileRows;
  for (int64_t row = 0; row < rows; ++row)
    tileRows.push_back({from, row});
  RegisterTile product;
  product.rows = tileRows;
  product.rowStep = task.valueWords;
  product.base =
      at(scratch.scores, {scoreOffset, kernel.mul(first, task.panel)});
  product.vectorStep = task.panel;
  product.vectors = task.vectors;
  product.count = task.pairs ? kernel.ceilDiv(count, 2) : count;
  product.pairs = task.pairs;
  Values sums = emitTile(kernel, product, initial);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t v = 0; v < task.vectors; ++v)
      kernel.storeVector(sums[row * task.vectors + v], to,
                         {row * task.panel + v * width});
}
