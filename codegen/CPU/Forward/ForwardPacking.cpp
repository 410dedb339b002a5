//===- ForwardPacking.cpp - Operands and results of a forward item --------===//

#include "codegen/CPU/Forward/ForwardItem.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

void ForwardItem::packQueries() {
  Index vectors = kernel.mul(panelCount, task.vectors);
  kernel.loop(0, vectors, 1, [&](Value vector) {
    Index panel = kernel.div(vector, task.vectors);
    Index lane = kernel.mul(kernel.rem(vector, task.vectors), kernel.width());
    Index first = kernel.mul(vector, kernel.width());
    packVector(panel, lane, kernel.add(firstQuery, first));
  });
}

/// Packs `width` queries, transposed: word k of lane l is word k of query l.
void ForwardItem::packVector(Index panel, Index lane, Index first) {
  int64_t width = kernel.width();
  unsigned query = task.sites.query;
  Index step = arguments.getStride(query, 3);
  bool converts = task.element.isBF16() && !task.pairs;
  bool mustCopy = !task.plan.queryRows.empty() || converts ||
                  !task.headParts.isSingle() ||
                  (task.pairs && task.headDim % 2 != 0);
  Value copied = at(scratch.rows);
  auto copy = [&] {
    RowCopy rows;
    rows.tensor = query;
    rows.batch = batch;
    rows.head = head;
    rows.first = first;
    rows.count = width;
    rows.dim = task.headParts.get().front().dim;
    rows.maps = task.plan.queryRows;
    rows.site = &querySite;
    rows.to = copied;
    rows.rowWords = task.keyWords;
    rows.pairs = task.pairs;
    rows.mappedRow = at(scratch.mappedRow);
    emitHeadCopy(kernel, arguments, task.plan, task.sites,
                 pos::RowOperand::query, task.headParts, rows, task.element);
  };
  Value isStrided;
  if (mustCopy) {
    copy();
  } else {
    isStrided = kernel.differ(step, 1);
    kernel.when(isStrided, copy);
  }
  Index last = kernel.sub(arguments.getSize(query, 2), 1);
  SmallVector<Value> rows;
  for (int64_t row = 0; row < width; ++row) {
    Value pointer = kernel.advance(copied, {row * task.keyWords});
    if (isStrided)
      pointer = kernel.selectF(
          isStrided, pointer,
          arguments.getAddress(
              query, {batch, head, kernel.min(kernel.add(first, row), last)}));
    rows.push_back(pointer);
  }

  // A row of units is a row of bf16 seen as f32.
  Value factor;
  if (form.queryFactor != 1.0)
    factor = kernel.splatF32(form.queryFactor);
  Value to = at(scratch.query,
                {kernel.mul(panel, task.queryWords * task.panel), lane});
  auto block = [&](Index word, int64_t count) {
    SmallVector<Value> vectors;
    for (Value row : rows) {
      Value from = kernel.advance(row, {word});
      vectors.push_back(kernel.loadPart(kernel.vf32, from, count));
    }
    Values columns = kernel.transpose(vectors);
    for (int64_t k = 0; k < count; ++k)
      kernel.storeVector(factor ? kernel.mulF(columns[k], factor) : columns[k],
                         to, {kernel.mul(word, task.panel), k * task.panel});
  };
  int64_t whole = task.queryWords / width * width;
  if (whole)
    kernel.loop(0, whole, width, [&](Value word) { block(word, width); });
  if (whole < task.queryWords)
    block(whole, task.queryWords - whole);

  clearVector(panel, lane);
}

/// The softmax and the output of a vector of queries that have seen no key.
void ForwardItem::clearVector(Index panel, Index lane) {
  Value zero = kernel.splatF32(0);
  Index place = kernel.add(kernel.mul(panel, task.panel), lane);
  kernel.storeVector(kernel.splatF32(hiddenScore),
                     at(scratch.maximum, {place}));
  kernel.storeVector(zero, at(scratch.sum, {place}));
  for (size_t scan = 0; scan < task.plan.scans.size(); ++scan)
    kernel.storeVector(
        zero, at(scratch.scans, {place, scan * task.maxPanels * task.panel}));
  Value output = at(scratch.output,
                    {kernel.mul(panel, task.outputRows * task.panel), lane});
  kernel.loop(0, task.outputRows, 1, [&](Value row) {
    kernel.storeVector(zero, output, {kernel.mul(row, task.panel)});
  });
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

/// Rows of a block as products read them, `rowWords` apart and a multiple of
/// `multiple` of them, of which those past the end repeat the last row: in
/// place where they lie so, else copied.
Value ForwardItem::prepareRows(unsigned tensor, int64_t dim,
                               ArrayRef<RowMap> maps, RowSite &rowSite,
                               bool alwaysCopies, int64_t multiple,
                               int64_t place, int64_t rowWords) {
  RowCopy copy;
  copy.tensor = tensor;
  copy.batch = batch;
  copy.head = kvHead;
  copy.first = firstKey;
  copy.count = kernel.roundUp(keyCount, multiple);
  copy.dim = dim;
  copy.maps = maps;
  copy.site = &rowSite;
  copy.to = at(place);
  copy.rowWords = rowWords;
  copy.pairs = task.pairs;
  copy.mappedRow = at(scratch.mappedRow);
  auto emitCopy = [&] {
    if (tensor != task.sites.key)
      return emitRowCopy(kernel, arguments, copy, task.element);
    return emitHeadCopy(kernel, arguments, task.plan, task.sites,
                        pos::RowOperand::key, task.headParts, copy,
                        task.element);
  };
  if (alwaysCopies) {
    emitCopy();
    return copy.to;
  }
  Value mustCopy;
  auto copyUnlessEqual = [&](Index a, Index b) {
    Value differs = kernel.differ(a, b);
    mustCopy = kernel.either(mustCopy, differs);
  };
  copyUnlessEqual(arguments.getStride(tensor, 3), 1);
  copyUnlessEqual(arguments.getStride(tensor, 2),
                  copy.rowWords * (task.pairs ? 2 : 1));
  if (multiple != 1)
    copyUnlessEqual(kernel.rem(keyCount, multiple), 0);
  kernel.when(mustCopy, [&] { emitCopy(); });
  Value inPlace = arguments.getAddress(tensor, {batch, kvHead, firstKey});
  return kernel.selectF(mustCopy, copy.to, inPlace);
}

void ForwardItem::prepareKeys() {
  keys = prepareRows(task.sites.key, task.headParts.get().front().dim,
                     task.plan.keyRows, keySite, task.copiesKeys, task.rows,
                     scratch.keys, task.keyWords);
}

void ForwardItem::prepareValues() {
  int64_t rowWords =
      getCopiedRowWords(kernel.target, task.valueDim, task.pairs);
  for (auto [part, tensor] :
       llvm::zip_equal(task.values.get(), task.sites.values)) {
    int64_t firstWord = task.pairs ? part.first / 2 : part.first;
    Value rows = prepareRows(tensor, part.dim, task.plan.valueRows, valueSite,
                             task.copiesValues, /*multiple=*/1,
                             scratch.values + firstWord, rowWords);
    if (part.first == 0)
      values = rows;
  }
  if (!task.pairs)
    return;
  // Neighbours of this contraction are rows: interleave them two by two. The
  // partner of an odd last row is that row again, its P is zero.
  Value to = at(scratch.pairs);
  int64_t lanes = 2 * kernel.width();
  Index last = kernel.sub(keyCount, 1);
  kernel.loop(0, keyCount, 2, [&](Value row) {
    Value first = kernel.advance(values, {kernel.mul(row, rowWords)});
    Index next = kernel.min(kernel.add(row, 1), last);
    Value second = kernel.advance(values, {kernel.mul(next, rowWords)});
    Value target =
        kernel.advance(to, {kernel.mul(kernel.div(row, 2), task.valueWords)});
    auto type = VectorType::get(lanes, kernel.bf16);
    for (int64_t lane = 0; lane < task.valueDim; lane += lanes) {
      int64_t count = std::min(lanes, task.valueDim - lane);
      auto load = [&](Value row) {
        return kernel.loadPart(type, kernel.advance(row, {lane}, kernel.bf16),
                               count);
      };
      auto [low, high] = kernel.interleave(load(first), load(second));
      kernel.storeVector(low, target, {lane});
      kernel.storeVector(high, target, {lane + kernel.width()});
    }
  });
  values = to;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void ForwardItem::storePanel(Index panel, Index first) {
  int64_t width = kernel.width();
  addWeightedRows(panel);
  Value maximum = statistics(scratch.maximum, panel);
  Value sum = statistics(scratch.sum, panel);
  Index count = kernel.min(task.panel, kernel.sub(queryCount, first));
  Value unit = kernel.splatF32(form.getUnit());
  for (int64_t v = 0; v < task.vectors; ++v) {
    Value m = kernel.loadVector(maximum, {v * width});
    Value l = kernel.loadVector(sum, {v * width});
    // A query that saw no key: zeros and -inf (C4). NaN counts as seen; the
    // maximum skips NaN scores, the sum keeps them.
    Value seen = kernel.addF(m, kernel.subF(l, l));
    Value isLive = kernel.compareF(arith::CmpFPredicate::UGT, seen,
                                   kernel.splatF32(hiddenScore));
    if (task.statistics) {
      kernel.storeVector(form.emitShift(kernel, m), at(scratch.results),
                         {v * width});
      kernel.storeVector(l, at(scratch.results), {task.panel + v * width});
    }
    Value lse = kernel.fma(m, unit, kernel.log(l));
    if (pos::RowTermOp term = task.plan.rowTerm) {
      site.enterPanel(kernel.add(firstQuery, first), first);
      site.setPoint(v, 0, 0);
      lse = kernel.addF(lse, site.hoisted(kernel.builder, term.getHoist()));
    }
    Value none = kernel.splatF32(-std::numeric_limits<double>::infinity());
    Value inverse = kernel.divF(kernel.splatF32(1), l);
    kernel.storeVector(kernel.selectF(isLive, lse, none), maximum, {v * width});
    kernel.storeVector(kernel.selectF(isLive, inverse, kernel.splatF32(0)), sum,
                       {v * width});
  }
  Index row = kernel.add(firstQuery, first);
  Value lse = arguments.getAddress(task.lse, {batch, head, row});
  Index step = arguments.getStride(task.lse, 2);
  kernel.loop(0, count, 1, [&](Value lane) {
    kernel.store(kernel.loadF32(maximum, {lane}),
                 kernel.advance(lse, {kernel.mul(lane, step)}));
  });
  if (task.statistics)
    kernel.loop(0, count, 1, [&](Value lane) {
      for (int64_t part : {0, 1})
        kernel.store(
            kernel.loadF32(at(scratch.results), {part * task.panel, lane}),
            arguments.getAddress(*task.statistics,
                                 {batch, head, kernel.add(row, lane), part}));
    });
  kernel.loop(0, count, width, [&](Value lane) {
    storeOutput(panel, kernel.add(row, lane), lane,
                kernel.min(width, kernel.sub(count, lane)));
  });
}

/// Stores `count` rows of the output from `row` on, at most a vector of them:
/// those from `lane` on in the panel.
void ForwardItem::storeOutput(Index panel, Index row, Index lane, Index count) {
  int64_t width = kernel.width();
  Value from = at(scratch.output,
                  {kernel.mul(panel, task.outputRows * task.panel), lane});
  Value inverse = kernel.loadVector(statistics(scratch.sum, panel), {lane});
  // A row without keys may have summed anything up: it is replaced, not scaled.
  Value isLive =
      kernel.compareF(arith::CmpFPredicate::UNE, inverse, kernel.splatF32(0));
  auto block = [&](unsigned output, const RowPart &part, Index column,
                   int64_t columns) {
    Value to = arguments.getAddress(output, {batch, head, row});
    Index stride = arguments.getStride(output, 2);
    Index sumRow = kernel.add(part.first, column);
    SmallVector<Value> vectors;
    for (int64_t k = 0; k < width; ++k) {
      Value sums = kernel.loadVector(
          from, {kernel.mul(sumRow, task.panel), k * task.panel});
      vectors.push_back(kernel.selectF(isLive, kernel.mulF(sums, inverse),
                                       kernel.splatF32(0)));
    }
    Values rows = kernel.transpose(vectors);
    for (int64_t k = 0; k < width; ++k)
      kernel.when(kernel.less(k, count), [&] {
        Value target =
            kernel.advance(to, {kernel.mul(k, stride), column}, task.element);
        Value result =
            task.element.isBF16() ? kernel.truncate(rows[k]) : rows[k];
        kernel.storePart(result, target, columns);
      });
  };
  for (auto [part, output] : llvm::zip_equal(task.values.get(), task.outputs)) {
    int64_t whole = part.dim / width * width;
    if (whole)
      kernel.loop(0, whole, width,
                  [&](Value column) { block(output, part, column, width); });
    if (whole < part.dim)
      block(output, part, whole, part.dim - whole);
  }
}
