//===- ForwardPacking.cpp - Operands as the forward's products read them --===//

#include "codegen/CPU/Forward/ForwardPacking.h"
#include "codegen/CPU/Forward/FewQueries.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ForwardPacking::ForwardPacking(ForwardItem &item)
    : item(item), kernel(item.kernel), arguments(item.arguments),
      launch(item.launch), queryPoint(kernel, arguments, launch.plan,
                                      launch.sites, pos::RowOperand::query),
      keyPoint(kernel, arguments, launch.plan, launch.sites,
               pos::RowOperand::key),
      valuePoint(kernel, arguments, launch.plan, launch.sites,
                 pos::RowOperand::value) {
  const VectorTarget &target = kernel.target;
  ScratchLayout &layout = item.layout;
  int64_t ofQueries = target.width * launch.getCopiedQueryWords();
  int64_t ofKeys = launch.keys * launch.keyWords;
  int64_t ofValues =
      launch.keys * getCopiedRowWords(target, launch.valueDim, launch.pairs);
  if (layout.hasNear()) {
    // Rows of queries are packed before a block has keys: near memory is short.
    rows = keys =
        layout.reserve(std::max(ofQueries, ofKeys + ofValues), "copied rows");
    values = keys + ofKeys;
  } else {
    rows = layout.reserve(ofQueries);
    keys = layout.reserve(ofKeys);
    values = layout.reserve(ofValues);
  }
  int64_t heads = launch.isTiled ? launch.scoreTiles : 1;
  pairs = layout.reserve(launch.hasPairs() ? heads * getPairedWords() : 0);
  if (launch.hasTerms())
    keyTerms = layout.reserve(launch.countTerms() * launch.keys *
                              launch.getTiledRowWords());
  mappedRow = layout.reserve(llvm::alignTo(
      std::max(launch.headDim, launch.valueDim), 2 * target.width));
  positions = layout.reserve(ForwardPoint::packedAxes * launch.countQueries());
}

void ForwardPacking::enterHead(pos::RowOperand operand) {
  if (operand == pos::RowOperand::query)
    return queryPoint.enterHead(item.batch, item.head);
  RowPoint &point = operand == pos::RowOperand::key ? keyPoint : valuePoint;
  point.enterHead(item.batch, item.kvHead);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

void ForwardPacking::packQueries(Index lane, Index first) {
  int64_t width = kernel.width();
  unsigned query = launch.sites.query;
  Index step = arguments.getStride(query, 3);
  bool converts = !launch.element.isF32() && !launch.pairs;
  bool mustCopy = !launch.plan.queryRows.empty() || converts ||
                  !launch.headParts.isSingle() ||
                  (launch.pairs && launch.headDim % launch.countTogether());
  Value copied = item.at(rows);
  auto copy = [&] {
    RowCopy copy;
    copy.tensor = query;
    copy.batch = item.batch;
    copy.head = item.head;
    copy.first = first;
    copy.count = width;
    copy.dim = launch.headParts.get().front().dim;
    copy.maps = launch.plan.queryRows;
    copy.point = &queryPoint;
    copy.to = copied;
    copy.rowWords = launch.getCopiedQueryWords();
    copy.pairs = launch.pairs;
    copy.mappedRow = item.at(mappedRow);
    emitHeadCopy(kernel, arguments, launch.plan, launch.sites,
                 pos::RowOperand::query, launch.headParts, copy,
                 launch.element);
  };
  Value isCopied = mustCopy ? kernel.constantI1(true) : kernel.differ(step, 1);
  kernel.when(isCopied, copy);
  Index last = kernel.sub(arguments.getSize(query, 2), 1);
  SmallVector<Value> pointers;
  for (int64_t row = 0; row < width; ++row)
    pointers.push_back(kernel.selectF(
        isCopied, kernel.advance(copied, {row * launch.getCopiedQueryWords()}),
        arguments.getAddress(query,
                             {item.batch, item.head,
                              kernel.min(kernel.add(first, row), last)})));

  if (launch.areFew)
    return packRows(kernel, pointers, launch.headDim, launch.queryWords,
                    item.ofPanel(item.query, launch.queryWords),
                    item.form.queryFactor);
  Value to = item.ofPanel(item.query, launch.queryWords, lane);
  if (launch.hasTerms())
    return splitTransposed(
        kernel, pointers, launch.headDim, Split::Rounds, to, launch.panel,
        launch.getTiledRowWords() * launch.panel, item.form.queryFactor);
  // A row of units is a row of bf16 seen as f32.
  packTransposed(kernel, pointers, launch.queryWords, launch.panel, to,
                 item.form.queryFactor);
}

void ForwardPacking::packPositions(ForwardPoint &point, Index count) {
  point.packPositions(item.firstQuery, count, launch.countQueries(),
                      item.at(positions));
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
Value ForwardPacking::prepareRows(unsigned tensor, int64_t dim,
                                  ArrayRef<RowMap> maps, RowPoint &point,
                                  bool alwaysCopies, int64_t multiple,
                                  int64_t to, int64_t rowWords) {
  RowCopy copy;
  copy.tensor = tensor;
  copy.batch = item.batch;
  copy.head = item.kvHead;
  copy.first = item.firstKey;
  copy.count =
      kernel.roundUp(item.keyCount, launch.isNear ? launch.rows : multiple);
  if (launch.isNear)
    copy.atOnce = launch.rows;
  copy.dim = dim;
  copy.maps = maps;
  copy.point = &point;
  copy.to = item.at(to);
  copy.rowWords = rowWords;
  copy.pairs = launch.hasRowsOfBf16();
  copy.mappedRow = item.at(mappedRow);
  auto emitCopy = [&] {
    if (tensor != launch.sites.key)
      return emitRowCopy(kernel, arguments, copy, launch.element);
    return emitHeadCopy(kernel, arguments, launch.plan, launch.sites,
                        pos::RowOperand::key, launch.headParts, copy,
                        launch.element);
  };
  Value mustCopy = kernel.constantI1(alwaysCopies);
  auto copyUnlessEqual = [&](Index a, Index b) {
    Value differs = kernel.differ(a, b);
    mustCopy = kernel.either(mustCopy, differs);
  };
  copyUnlessEqual(arguments.getStride(tensor, 3), 1);
  copyUnlessEqual(arguments.getStride(tensor, 2),
                  copy.rowWords * (launch.hasRowsOfBf16() ? 2 : 1));
  if (multiple != 1)
    copyUnlessEqual(kernel.rem(item.keyCount, multiple), 0);
  kernel.when(mustCopy, [&] { emitCopy(); });
  Value inPlace =
      arguments.getAddress(tensor, {item.batch, item.kvHead, item.firstKey});
  return kernel.selectF(mustCopy, copy.to, inPlace);
}

Value ForwardPacking::prepareKeys() {
  Value rows = prepareRows(launch.sites.key, launch.headParts.get().front().dim,
                           launch.plan.keyRows, keyPoint, launch.copiesKeys,
                           launch.countKeysTogether(), keys, launch.keyWords);
  if (!launch.hasTerms())
    return rows;
  Value to = item.at(keyTerms);
  splitRows(kernel, {rows, launch.keyWords, launch.headDim},
            kernel.roundUp(item.keyCount, launch.countKeysTogether()),
            Split::Cuts, to, launch.keys * launch.getTiledRowWords());
  return to;
}

int64_t ForwardPacking::getPairedWords() const {
  return launch.countTerms() * launch.keys / 2 * launch.outputRows;
}

/// Of each head where the scores of all are made together.
Value ForwardPacking::getTurnedValues() {
  Index head = launch.scoreTiles > 1 ? item.kvHead : Index(0);
  return item.at(pairs, {kernel.mul(head, getPairedWords())});
}

Value ForwardPacking::prepareValues() {
  int64_t rowWords =
      getCopiedRowWords(kernel.target, launch.valueDim, launch.hasRowsOfBf16());
  Value first;
  for (auto [part, tensor] :
       llvm::zip_equal(launch.values.get(), launch.sites.values)) {
    int64_t firstWord = launch.pairs ? part.first / 2 : part.first;
    Value rows = prepareRows(tensor, part.dim, launch.plan.valueRows,
                             valuePoint, launch.copiesValues,
                             launch.isTiled ? UnitProduct::depth : 1,
                             values + firstWord, rowWords);
    if (part.first == 0)
      first = rows;
  }
  if (launch.isTiled)
    return turnRows(first, rowWords);
  return launch.pairs ? interleaveRows(first, rowWords) : first;
}

/// V^T in pairs of keys, step by step of the product, so that the tiles of a
/// step are read line after line. Keys past the last one, up to a step of the
/// product, are that one again; their P is zero.
Value ForwardPacking::turnRows(Value rows, int64_t rowWords) {
  Value to = getTurnedValues();
  kernel.loop(0, item.keyCount, UnitProduct::depth, [&](Value row) {
    Value from = kernel.advance(rows, {kernel.mul(row, rowWords)});
    Value target =
        kernel.advance(to, {kernel.mul(kernel.div(row, 2), launch.outputRows)});
    if (launch.hasTerms())
      splitTurned(kernel, {from, rowWords, launch.valueDim}, target,
                  MatrixUnit::side, launch.getValueTermWords());
    else
      turnPairs(kernel, from, rowWords, launch.outputRows, target,
                MatrixUnit::side);
  });
  return to;
}

/// Interleaves rows of V two by two: they are neighbours in their contraction
/// with P. The partner of an odd last row is that row again, its P is zero.
Value ForwardPacking::interleaveRows(Value rows, int64_t rowWords) {
  Value to = item.at(pairs);
  int64_t lanes = 2 * kernel.width();
  Index last = kernel.sub(item.keyCount, 1);
  kernel.loop(0, item.keyCount, 2, [&](Value row) {
    Value first = kernel.advance(rows, {kernel.mul(row, rowWords)});
    Index next = kernel.min(kernel.add(row, 1), last);
    Value second = kernel.advance(rows, {kernel.mul(next, rowWords)});
    Value target =
        kernel.advance(to, {kernel.mul(kernel.div(row, 2), launch.valueWords)});
    auto type = VectorType::get(lanes, kernel.bf16);
    for (int64_t lane = 0; lane < launch.valueDim; lane += lanes) {
      int64_t count = std::min(lanes, launch.valueDim - lane);
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

void ForwardPacking::prefetchShare(Index part, Index all) {
  int64_t words = launch.scoreTiles * (launch.headDim + launch.valueDim);
  Index keys = arguments.getSize(launch.sites.key, 2);
  kernel.when(
      areBeyondSecondCache(kernel, keys,
                           words * launch.element.getIntOrFloatBitWidth() / 8),
      [&] { emitPrefetch(part, all); });
}

void ForwardPacking::emitPrefetch(Index part, Index all) {
  bool isLeftward = launch.plan.isLeftward();
  Index length = arguments.getSize(launch.sites.key, 2);
  Index next = isLeftward ? kernel.sub(item.firstKey, launch.keys)
                          : kernel.add(item.firstKey, launch.keys);
  Index begin = isLeftward
                    ? kernel.mul(kernel.div(kernel.sub(length, 1), launch.keys),
                                 launch.keys)
                    : Index(0);
  Value exists = isLeftward ? kernel.less(-1, next) : kernel.less(next, length);
  RowPrefetch rows;
  rows.outer = {item.batch, item.kvHead};
  rows.first = kernel.select(exists, next, begin);
  rows.count = launch.keys;
  rows.part = kernel.div(part, launch.rows);
  rows.parts = kernel.ceilDiv(all, launch.rows);
  auto ask = [&](unsigned tensor, int64_t dim) {
    rows.tensor = tensor;
    rows.dim = dim;
    prefetchRows(kernel, arguments, rows);
  };
  ask(launch.sites.key, launch.headParts.get().front().dim);
  for (auto [value, tensor] :
       llvm::zip_equal(launch.values.get(), launch.sites.values))
    ask(tensor, value.dim);
}
