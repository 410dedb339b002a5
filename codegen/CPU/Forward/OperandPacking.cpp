//===- OperandPacking.cpp - Operands as the forward's products read them --===//

#include "codegen/CPU/Forward/OperandPacking.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

OperandPacking::OperandPacking(ForwardPlace &place)
    : place(place), kernel(place.kernel), arguments(place.arguments),
      task(place.task), querySite(kernel, arguments, task.plan, task.sites,
                                  pos::RowOperand::query),
      keySite(kernel, arguments, task.plan, task.sites, pos::RowOperand::key),
      valueSite(kernel, arguments, task.plan, task.sites,
                pos::RowOperand::value) {
  const VectorTarget &target = kernel.target;
  ScratchLayout &layout = place.layout;
  rows = layout.reserve(target.width * task.keyWords);
  keys = layout.reserve(task.keys * task.keyWords);
  values = layout.reserve(task.keys *
                          getCopiedRowWords(target, task.valueDim, task.pairs));
  pairs = layout.reserve(task.pairs ? task.keys / 2 * task.valueWords : 0);
  mappedRow = layout.reserve(
      llvm::alignTo(std::max(task.headDim, task.valueDim), 2 * target.width));
  positions = layout.reserve(ScoreSite::packedAxes * task.countQueries());
}

void OperandPacking::enterHead(pos::RowOperand operand) {
  if (operand == pos::RowOperand::query)
    return querySite.enterHead(place.batch, place.head);
  RowSite &site = operand == pos::RowOperand::key ? keySite : valueSite;
  site.enterHead(place.batch, place.kvHead);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

void OperandPacking::packQueries(Index lane, Index first) {
  int64_t width = kernel.width();
  unsigned query = task.sites.query;
  Index step = arguments.getStride(query, 3);
  bool converts = task.element.isBF16() && !task.pairs;
  bool mustCopy = !task.plan.queryRows.empty() || converts ||
                  !task.headParts.isSingle() ||
                  (task.pairs && task.headDim % 2 != 0);
  Value copied = place.at(rows);
  auto copy = [&] {
    RowCopy copy;
    copy.tensor = query;
    copy.batch = place.batch;
    copy.head = place.head;
    copy.first = first;
    copy.count = width;
    copy.dim = task.headParts.get().front().dim;
    copy.maps = task.plan.queryRows;
    copy.site = &querySite;
    copy.to = copied;
    copy.rowWords = task.keyWords;
    copy.pairs = task.pairs;
    copy.mappedRow = place.at(mappedRow);
    emitHeadCopy(kernel, arguments, task.plan, task.sites,
                 pos::RowOperand::query, task.headParts, copy, task.element);
  };
  Value isCopied = mustCopy ? kernel.constantI1(true) : kernel.differ(step, 1);
  kernel.when(isCopied, copy);
  Index last = kernel.sub(arguments.getSize(query, 2), 1);
  SmallVector<Value> pointers;
  for (int64_t row = 0; row < width; ++row)
    pointers.push_back(
        kernel.selectF(isCopied, kernel.advance(copied, {row * task.keyWords}),
                       arguments.getAddress(
                           query, {place.batch, place.head,
                                   kernel.min(kernel.add(first, row), last)})));

  // A row of units is a row of bf16 seen as f32.
  packTransposed(kernel, pointers, task.queryWords, task.panel,
                 place.ofPanel(place.query, task.queryWords, lane),
                 place.form.queryFactor);
}

void OperandPacking::packPositions(ScoreSite &site, Index count) {
  site.packPositions(place.firstQuery, count, task.countQueries(),
                     place.at(positions));
}

void codegen::packTransposed(KernelBuilder &kernel, ArrayRef<Value> rows,
                             int64_t words, int64_t panel, Value to,
                             double factor) {
  forParts(kernel, words, kernel.width(), [&](Index word, int64_t count) {
    SmallVector<Value> vectors;
    for (Value row : rows)
      vectors.push_back(
          kernel.loadPart(kernel.vf32, kernel.advance(row, {word}), count));
    KernelBuilder::Values columns = kernel.transpose(vectors);
    for (int64_t k = 0; k < count; ++k) {
      Value column = columns[k];
      if (factor != 1.0)
        column = kernel.mulF(column, kernel.splatF32(factor));
      kernel.storeVector(column, to, {kernel.mul(word, panel), k * panel});
    }
  });
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

/// Rows of a block as products read them, `rowWords` apart and a multiple of
/// `multiple` of them, of which those past the end repeat the last row: in
/// place where they lie so, else copied.
Value OperandPacking::prepareRows(unsigned tensor, int64_t dim,
                                  ArrayRef<RowMap> maps, RowSite &site,
                                  bool alwaysCopies, int64_t multiple,
                                  int64_t to, int64_t rowWords) {
  RowCopy copy;
  copy.tensor = tensor;
  copy.batch = place.batch;
  copy.head = place.kvHead;
  copy.first = place.firstKey;
  copy.count = kernel.roundUp(place.keyCount, multiple);
  copy.dim = dim;
  copy.maps = maps;
  copy.site = &site;
  copy.to = place.at(to);
  copy.rowWords = rowWords;
  copy.pairs = task.pairs;
  copy.mappedRow = place.at(mappedRow);
  auto emitCopy = [&] {
    if (tensor != task.sites.key)
      return emitRowCopy(kernel, arguments, copy, task.element);
    return emitHeadCopy(kernel, arguments, task.plan, task.sites,
                        pos::RowOperand::key, task.headParts, copy,
                        task.element);
  };
  Value mustCopy = kernel.constantI1(alwaysCopies);
  auto copyUnlessEqual = [&](Index a, Index b) {
    Value differs = kernel.differ(a, b);
    mustCopy = kernel.either(mustCopy, differs);
  };
  copyUnlessEqual(arguments.getStride(tensor, 3), 1);
  copyUnlessEqual(arguments.getStride(tensor, 2),
                  copy.rowWords * (task.pairs ? 2 : 1));
  if (multiple != 1)
    copyUnlessEqual(kernel.rem(place.keyCount, multiple), 0);
  kernel.when(mustCopy, [&] { emitCopy(); });
  Value inPlace =
      arguments.getAddress(tensor, {place.batch, place.kvHead, place.firstKey});
  return kernel.selectF(mustCopy, copy.to, inPlace);
}

Value OperandPacking::prepareKeys() {
  return prepareRows(task.sites.key, task.headParts.get().front().dim,
                     task.plan.keyRows, keySite, task.copiesKeys, task.rows,
                     keys, task.keyWords);
}

Value OperandPacking::prepareValues() {
  int64_t rowWords =
      getCopiedRowWords(kernel.target, task.valueDim, task.pairs);
  Value first;
  for (auto [part, tensor] :
       llvm::zip_equal(task.values.get(), task.sites.values)) {
    int64_t firstWord = task.pairs ? part.first / 2 : part.first;
    Value rows = prepareRows(tensor, part.dim, task.plan.valueRows, valueSite,
                             task.copiesValues, /*multiple=*/1,
                             values + firstWord, rowWords);
    if (part.first == 0)
      first = rows;
  }
  return task.pairs ? interleaveRows(first, rowWords) : first;
}

/// Of pairs neighbours of the contraction with V are rows: they are interleaved
/// two by two. The partner of an odd last row is that row again, its P is zero.
Value OperandPacking::interleaveRows(Value rows, int64_t rowWords) {
  Value to = place.at(pairs);
  int64_t lanes = 2 * kernel.width();
  Index last = kernel.sub(place.keyCount, 1);
  kernel.loop(0, place.keyCount, 2, [&](Value row) {
    Value first = kernel.advance(rows, {kernel.mul(row, rowWords)});
    Index next = kernel.min(kernel.add(row, 1), last);
    Value second = kernel.advance(rows, {kernel.mul(next, rowWords)});
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
  return to;
}

void OperandPacking::prefetchShare(Index part, Index all) {
  bool isLeftward = task.plan.isLeftward();
  Index length = arguments.getSize(task.sites.key, 2);
  Index next = isLeftward ? kernel.sub(place.firstKey, task.keys)
                          : kernel.add(place.firstKey, task.keys);
  Index begin =
      isLeftward
          ? kernel.mul(kernel.div(kernel.sub(length, 1), task.keys), task.keys)
          : Index(0);
  Value exists = isLeftward ? kernel.less(-1, next) : kernel.less(next, length);
  RowPrefetch rows;
  rows.outer = {place.batch, place.kvHead};
  rows.first = kernel.select(exists, next, begin);
  rows.count = task.keys;
  rows.part = kernel.div(part, task.rows);
  rows.parts = kernel.ceilDiv(all, task.rows);
  auto ask = [&](unsigned tensor, int64_t dim) {
    rows.tensor = tensor;
    rows.dim = dim;
    prefetchRows(kernel, arguments, rows);
  };
  ask(task.sites.key, task.headParts.get().front().dim);
  for (auto [value, tensor] :
       llvm::zip_equal(task.values.get(), task.sites.values))
    ask(tensor, value.dim);
}
