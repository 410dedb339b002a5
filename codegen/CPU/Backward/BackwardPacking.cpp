//===- BackwardPacking.cpp - Operands as products read them ---------------===//

#include "codegen/CPU/Backward/BackwardPacking.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowPullback.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Rows first .. first + count - 1 of a tensor, mapped, to rows of `row`
/// elements.
static RowCopy getCopy(BackwardItem &at, unsigned tensor, Index first,
                       Index count, int64_t row, ArrayRef<RowMap> maps,
                       RowPoint &point) {
  RowCopy copy;
  copy.tensor = tensor;
  std::tie(copy.batch, copy.head) = point.getPlace();
  copy.first = first;
  copy.count = count;
  copy.maps = maps;
  copy.point = &point;
  copy.rowWords = at.shape.countCopiedWords(row);
  copy.pairs = at.shape.dot;
  copy.mappedRow = at.mappedRow;
  if (at.shape.isNear) // blocks and tiles are whole register tiles
    copy.atOnce = at.shape.rows;
  return copy;
}

/// Copies rows of query or key with their columns.
///
/// A column that was read outside of a parameter is NaN. Where it is seen, so
/// are the log-sum-exp of the row and all that follows from it; where it is
/// hidden it must not reach the products of gradients, in which it meets zeros.
static void copyHeadRows(BackwardItem &at, pos::RowOperand operand,
                         RowCopy copy, Value to) {
  const RowParts &parts = at.shape.headParts;
  copy.dim = parts.get().front().dim;
  copy.to = to;
  copy.clearsNaN = true;
  emitHeadCopy(at.kernel, at.arguments, at.launch.plan, at.launch.sites,
               operand, parts, copy, at.launch.element);
}

/// Copies likewise the tensors of a row of values, side by side.
static void copyValueRows(BackwardItem &at, ArrayRef<unsigned> tensors,
                          RowCopy copy, Value to) {
  for (auto [part, tensor] :
       llvm::zip_equal(at.shape.valueParts.get(), tensors)) {
    copy.tensor = tensor;
    copy.dim = part.dim;
    copy.to = at.kernel.advance(to, {at.shape.countCopiedWords(part.first)});
    emitRowCopy(at.kernel, at.arguments, copy, at.launch.element);
  }
}

/// Rows of bf16 as pairs of rows: to[n / 2][lane] holds lane of rows n, n + 1.
static void interleaveRows(KernelBuilder &kernel, Value rows, Index count,
                           int64_t row, Value to) {
  int64_t width = kernel.width(), words = row / 2;
  kernel.loop(0, count, 2, [&](Value number) {
    Value from = kernel.advance(rows, {kernel.mul(number, words)});
    Value out = kernel.advance(to, {kernel.mul(number, words)});
    for (int64_t word = 0; word < words; word += width) {
      auto [low, high] =
          kernel.interleave(kernel.loadVector(from, {word}),
                            kernel.loadVector(from, {word + words}));
      kernel.storeVector(low, out, {2 * word});
      kernel.storeVector(high, out, {2 * word + width});
    }
  });
}

void codegen::transposePanels(BackwardItem &at, Value from, Value to,
                              int64_t words, double scale, bool toRows,
                              int64_t stride) {
  KernelBuilder &kernel = at.kernel;
  int64_t width = kernel.width(), panelKeys = at.shape.panel;
  if (!stride)
    stride = panelKeys;
  // Vector `n` of a square, of keys or of words.
  auto getPlace = [&](bool inRows, Index word, int64_t v, int64_t n) {
    return inRows ? std::array<Index, 2>{word, (v * width + n) * words}
                  : std::array<Index, 2>{kernel.mul(word, stride),
                                         n * stride + v * width};
  };
  kernel.loop(0, at.panelCount, 1, [&](Value panel) {
    Index ofRows = kernel.mul(panel, panelKeys * words);
    Index ofPanel = kernel.mul(panel, stride * words);
    Value source = kernel.advance(from, {toRows ? ofPanel : ofRows});
    Value target = kernel.advance(to, {toRows ? ofRows : ofPanel});
    kernel.loop(0, words, width, [&](Value word) {
      for (int64_t v = 0; v < at.shape.vectors; ++v) {
        Values square;
        for (int64_t n = 0; n < width; ++n)
          square.push_back(
              kernel.loadVector(source, getPlace(!toRows, word, v, n)));
        for (auto [n, vector] : llvm::enumerate(kernel.transpose(square)))
          kernel.storeVector(scale == 1.0
                                 ? vector
                                 : kernel.mulF(vector, kernel.splatF32(scale)),
                             target, getPlace(toRows, word, v, n));
      }
    });
  });
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

KeyTile::KeyTile(BackwardItem &at, const ScoreForm &form, int64_t heads)
    : at(at), form(form), heads(heads),
      keyPoint(kernel, arguments, launch.plan, launch.sites,
               pos::RowOperand::key, launch.tableGradients, /*isPartial=*/true),
      valuePoint(kernel, arguments, launch.plan, launch.sites,
                 pos::RowOperand::value, launch.tableGradients,
                 /*isPartial=*/true) {
  rows = at.scratch.at(
      kernel, at.scratch.layout.reserveFar(
                  shape.keys * std::max(shape.headRow, shape.valueRow)));
  if (shape.unpacksKeys)
    slabs = rows;
  else if (!shape.sharesKeys)
    slabs = at.reserve(shape.countTerms() * shape.tiles * heads * shape.keys *
                           shape.headRow / shape.perStep(),
                       "slabs of keys");
  at.mappedRow = at.reserve(std::max(shape.headRow, shape.valueRow));
  auto reserve = [&](int64_t dim, int64_t row, int64_t stride) -> Operand {
    int64_t elements = shape.tiles * heads * shape.panels * row;
    Value transposed =
        at.reserveNear(shape.countTerms() * elements * stride / shape.perStep(),
                       "keys and values");
    return {
        dim, row, stride, transposed,
        at.reserveNear(elements * shape.panel, "gradients of keys and values")};
  };
  keys = reserve(shape.headDim, shape.headRow, shape.keyStride);
  values = reserve(shape.valueDim, shape.valueRow, shape.panel);
  if (shape.sharesKeys)
    slabs = keys.transposed;
}

void KeyTile::enterHead() {
  keyPoint.enterHead(at.batch, at.kvHead);
  valuePoint.enterHead(at.batch, at.kvHead);
}

Value KeyTile::ofHead(Value memory, int64_t row) {
  if (heads == 1 && shape.tiles == 1)
    return memory;
  Index number = heads == 1
                     ? at.place
                     : kernel.add(kernel.mul(at.place, heads), at.kvHead);
  return kernel.advance(memory, {kernel.mul(number, row * shape.keys)});
}

void KeyTile::forEachSlab(Value slabs,
                          function_ref<void(Index, int64_t, Value)> body) {
  int64_t width = kernel.width();
  auto emitSlabs = [&](int64_t first, int64_t end, int64_t vectors) {
    auto emit = [&](Index lane) {
      int64_t rows =
          shape.sharesKeys ? shape.keyStride : shape.keys / shape.perStep();
      Index place = shape.unpacksKeys ? lane : kernel.mul(lane, rows);
      body(lane, vectors, kernel.advance(slabs, {place}));
    };
    if (end - first == vectors)
      emit(first * width);
    else if (first < end)
      kernel.loop(first * width, end * width, vectors * width, emit);
  };
  // As few as there can be, and as even: sums of one vector, which might be
  // left behind whole slabs, would wait for each other.
  int64_t vectors = shape.headRow / width;
  int64_t count = llvm::divideCeil(vectors, shape.rowVectors);
  int64_t narrow = vectors / count;
  int64_t ofWide = vectors % count * (narrow + 1);
  emitSlabs(0, ofWide, narrow + 1);
  emitSlabs(ofWide, vectors, narrow);
}

RegisterTile KeyTile::getSlabTile(Value slab, int64_t vectors, Index first,
                                  Index count) const {
  RegisterTile tile;
  tile.vectors = vectors;
  tile.count = count;
  tile.vectorStep =
      shape.unpacksKeys ? shape.headRow : vectors * kernel.width();
  if (shape.sharesKeys) {
    tile.vectorStep = 1;
    tile.laneStep = shape.keyStride;
    tile.vectorDistance = kernel.width() * shape.keyStride;
  }
  if (shape.isNear)
    tile.alignment = 16;
  tile.unroll = shape.unroll;
  tile.base = kernel.advance(slab, {kernel.mul(first, tile.vectorStep)});
  return tile;
}

/// rows[n][lane] becomes slabs[lane / slab][n][lane % slab].
void KeyTile::packSlabs(Value rows, Index count) {
  int64_t width = kernel.width();
  forEachSlab(getSlabs(), [&](Index lane, int64_t vectors, Value out) {
    Value from = kernel.advance(rows, {lane});
    kernel.loop(0, count, 1, [&](Value row) {
      for (int64_t v = 0; v < vectors; ++v)
        kernel.storeVector(
            kernel.loadVector(from,
                              {kernel.mul(row, shape.headRow), v * width}),
            out, {kernel.mul(row, vectors * width), v * width});
    });
  });
}

/// The terms of rows of f32 of the tile, [panels][terms][pairs of a
/// row][panel].
void KeyTile::packTerms(const Operand &operand) {
  int64_t width = kernel.width(), distance = operand.row / 2 * operand.stride;
  kernel.loop(0, at.panelCount, 1, [&](Value panel) {
    Value to = kernel.advance(
        operand.transposed, {kernel.mul(panel, shape.countTerms() * distance)});
    for (int64_t lane = 0; lane < shape.panel; lane += width) {
      SmallVector<Value> keyRows;
      for (int64_t n = 0; n < width; ++n)
        keyRows.push_back(
            kernel.advance(rows, {kernel.mul(panel, shape.panel * operand.row),
                                  (lane + n) * operand.row}));
      splitTransposed(kernel, keyRows, operand.dim, Split::Cuts,
                      kernel.advance(to, {lane}), operand.stride, distance);
    }
  });
}

/// The terms of rows of f32 of K, slab by slab in pairs of rows.
void KeyTile::packTermSlabs(Index pairs) {
  int64_t width = kernel.width();
  int64_t copied = llvm::alignTo(keys.dim, width);
  forEachSlab(getSlabs(), [&](Index lane, int64_t vectors, Value out) {
    kernel.loop(0, pairs, 1, [&](Value pair) {
      Value from = kernel.advance(rows, {kernel.mul(pair, 2 * keys.row), lane});
      Value to = kernel.advance(out, {kernel.mul(pair, vectors * width)});
      for (int64_t v = 0; v < vectors; ++v) {
        Value isCopied = kernel.less(kernel.add(lane, v * width), copied);
        auto load = [&](int64_t row) {
          return kernel.selectF(
              isCopied, kernel.loadVector(from, {row * keys.row, v * width}),
              kernel.splatF32(0.0));
        };
        storeTerms(
            kernel,
            splitPair(kernel, load(0), load(1), Pairs::Rows, Split::Rounds),
            kernel.advance(to, {v * width}), shape.countSlabTermWords());
      }
    });
  });
}

/// Of so many keys.
void KeyTile::clearGradients(Index total) {
  for (const Operand &operand : {keys, values})
    kernel.clear(ofHead(operand.gradient, operand.row),
                 kernel.mul(total, operand.row));
}

void KeyTile::load() {
  Index total = kernel.mul(at.panelCount, shape.panel);
  copyValueRows(at, launch.sites.values,
                getCopy(at, 0, at.firstKey, total, shape.valueRow,
                        launch.plan.valueRows, valuePoint),
                rows);
  int64_t valueWords = shape.valueRow / shape.perStep();
  if (shape.hasTerms())
    packTerms(values);
  else
    transposePanels(at, rows, ofHead(values.transposed, valueWords), valueWords,
                    1.0, /*toRows=*/false);
  copyHeadRows(at, pos::RowOperand::key,
               getCopy(at, launch.sites.key, at.firstKey, total, shape.headRow,
                       launch.plan.keyRows, keyPoint),
               rows);
  if (shape.hasTerms()) {
    packTerms(keys);
    packTermSlabs(kernel.div(total, 2));
    return clearGradients(total);
  }
  int64_t words = shape.headRow / shape.perStep();
  transposePanels(at, rows, ofHead(keys.transposed, words), words,
                  form.keyFactor, /*toRows=*/false, keys.stride);
  Value pairs = rows;
  if (shape.dot) { // behind the rows, which take half of the buffer
    pairs = kernel.advance(rows, {shape.keys * words});
    interleaveRows(kernel, rows, total, shape.headRow, pairs);
  }
  if (!shape.sharesKeys && !shape.unpacksKeys)
    packSlabs(pairs, kernel.div(total, shape.perStep()));
  clearGradients(total);
}

void KeyTile::unpackKeys() {
  transposePanels(at, ofHead(keys.transposed, shape.headRow), rows,
                  shape.headRow, 1.0 / form.keyFactor, /*toRows=*/true);
}

//===----------------------------------------------------------------------===//
// Gradients of keys and values
//===----------------------------------------------------------------------===//

void KeyTile::addToGradient(Value gradient, RegisterTile tile, Value columns,
                            int64_t lanes) {
  tile.vectors = shape.vectors;
  tile.pairs = shape.dot;
  tile.unroll = shape.unroll;
  if (shape.isNear && tile.rowStep.isConstant())
    tile.alignment = 16;
  kernel.loop(0, lanes, shape.rows, [&](Value lane) {
    Value first = kernel.advance(columns, {lane});
    Value to = kernel.advance(gradient, {kernel.mul(lane, shape.panel)});
    SmallVector<TileRow> rows = getTileRows(first, shape.rows, 1);
    tile.rows = rows;
    addTile(kernel, tile, to, shape.panel);
  });
}

/// Stores lanes [part.first, part.first + part.dim) of the rows as the gradient
/// of the rows of `source`.
void KeyTile::storeGradient(const RowPart &part, int64_t row,
                            ArrayRef<RowMap> maps, RowPoint &rowPoint,
                            unsigned source, unsigned tensor) {
  kernel.loop(0, at.keyCount, 1, [&](Value number) {
    Index key = kernel.add(at.firstKey, number);
    Value from = kernel.advance(rows, {kernel.mul(number, row), part.first});
    RowPullback pullback{source, std::nullopt, at.batch, at.kvHead,
                         key,    part.dim,     maps,     &rowPoint,
                         from,   at.mappedRow};
    emitRowPullback(kernel, arguments, pullback, launch.element);
    storeRow(kernel, from, part.dim,
             arguments.getAddress(tensor, {at.batch, at.kvHead, key}),
             arguments.getElementType(tensor));
  });
}

/// Adds the parts of the rows that belong to columns of keys to the partial
/// sums of their tables' gradients.
void KeyTile::addColumnGradients() {
  for (auto [part, columns] : llvm::zip_equal(
           shape.headParts.get().drop_front(), launch.plan.columns)) {
    const Hoisted *table = launch.plan.find(columns.key, pos::RowOperand::key);
    auto gradient = launch.tableGradients[table - launch.plan.hoisted.data()];
    if (!gradient)
      continue;
    int64_t dim = part.dim, first = part.first;
    kernel.loop(0, at.keyCount, 1, [&](Value number) {
      Value from =
          kernel.advance(rows, {kernel.mul(number, shape.headRow), first});
      Index key = kernel.add(at.firstKey, number);
      Value to = gradient.getRow(kernel, arguments, at.batch, at.kvHead, key,
                                 /*wholeRow=*/key);
      for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
        int64_t count = std::min<int64_t>(kernel.width(), dim - lane);
        Value sum = kernel.advance(to, {lane});
        kernel.storePart(kernel.addF(kernel.loadPart(kernel.vf32, sum, count),
                                     kernel.loadVector(from, {lane})),
                         sum, count);
      }
    });
  }
}

/// Stores the vectors of a part of the rows as those of the sums of a part of
/// the queries.
void KeyTile::storePart(const RowPart &part, int64_t row, unsigned tensor) {
  kernel.loop(0, at.keyCount, 1, [&](Value number) {
    Value from = kernel.advance(rows, {kernel.mul(number, row), part.first});
    Value to = arguments.getAddress(tensor, {at.part, at.batch, at.kvHead,
                                             kernel.add(at.firstKey, number)});
    for (int64_t lane = 0; lane < part.dim; lane += kernel.width())
      kernel.storeVector(kernel.loadVector(from, {lane}), to, {lane});
  });
}

void KeyTile::store() {
  transposePanels(at, ofHead(values.gradient, values.row), rows, values.row,
                  1.0, /*toRows=*/true);
  for (auto [number, part] : llvm::enumerate(shape.valueParts.get()))
    if (launch.keyRows)
      storePart(part, shape.valueRow, *launch.valueRows[number]);
    else
      storeGradient(part, shape.valueRow, launch.plan.valueRows, valuePoint,
                    launch.sites.values[number], launch.valueGradients[number]);
  transposePanels(at, ofHead(keys.gradient, keys.row), rows, keys.row,
                  form.getKeyGradientFactor(launch.plan.scale),
                  /*toRows=*/true);
  if (launch.keyRows)
    return storePart({shape.headDim, 0}, shape.headRow, *launch.keyRows);
  addColumnGradients();
  storeGradient(shape.headParts.get().front(), shape.headRow,
                launch.plan.keyRows, keyPoint, launch.sites.key,
                launch.keyGradient);
}

//===----------------------------------------------------------------------===//
// Queries and gradients of outputs
//===----------------------------------------------------------------------===//

QueryBlock::QueryBlock(BackwardItem &at, const ScoreForm &form, int64_t heads)
    : at(at), form(form), heads(heads),
      point(at.kernel, at.arguments, launch.plan, launch.sites,
            pos::RowOperand::query) {
  auto reserve = [&](int64_t row) -> Operand {
    int64_t words = heads * countWords(row);
    Value rows = at.reserveNear(words, "queries and gradients of outputs");
    return {rows, shape.hasPairs() ? at.reserve(words) : rows};
  };
  if (shape.hasTerms())
    copied =
        at.reserve(shape.queries * std::max(shape.headRow, shape.valueRow));
  queries = queriesOfAll = reserve(shape.headRow);
  outputGradients = outputGradientsOfAll = reserve(shape.valueRow);
}

/// Of a block of one head.
int64_t QueryBlock::countWords(int64_t row) const {
  return shape.countTerms() * shape.queries * row / shape.perStep();
}

void QueryBlock::enterHead() {
  point.enterHead(at.batch, at.head);
  if (heads == 1)
    return;
  auto ofHead = [&](const Operand &all, int64_t row) -> Operand {
    Index offset = at.kernel.mul(at.head, countWords(row));
    return {at.kernel.advance(all.rows, {offset}),
            at.kernel.advance(all.columns, {offset})};
  };
  queries = ofHead(queriesOfAll, shape.headRow);
  outputGradients = ofHead(outputGradientsOfAll, shape.valueRow);
}

void QueryBlock::copyQueries() {
  RowCopy copy = getCopy(at, launch.sites.query, at.firstQuery, at.groupEnd,
                         shape.headRow, launch.plan.queryRows, point);
  copy.factor = form.queryFactor;
  copyHeadRows(at, pos::RowOperand::query, copy,
               shape.hasTerms() ? copied : queries.rows);
  splitCopy(queries, shape.headDim, shape.headRow);
}

void QueryBlock::copyOutputGradients() {
  copyValueRows(
      at, launch.outputGradients,
      getCopy(at, 0, at.firstQuery, at.groupEnd, shape.valueRow, {}, point),
      shape.hasTerms() ? copied : outputGradients.rows);
  splitCopy(outputGradients, shape.valueDim, shape.valueRow);
}

/// Of rows, and of whole steps of them turned.
void QueryBlock::splitCopy(const Operand &operand, int64_t dim, int64_t row) {
  if (!shape.hasTerms())
    return;
  KernelBuilder &kernel = at.kernel;
  int64_t distance = shape.countTermWords(row);
  splitRows(kernel, {copied, row, dim}, at.groupEnd, Split::Rounds,
            operand.rows, distance);
  kernel.loop(0, at.groupEnd, UnitProduct::depth, [&](Value query) {
    Value from = kernel.advance(copied, {kernel.mul(query, row)});
    splitTurned(kernel, {from, row, dim},
                kernel.advance(operand.columns, {kernel.div(query, 2)}),
                shape.queries / 2, distance);
  });
}

void QueryBlock::load() {
  copyQueries();
  copyOutputGradients();
  if (!shape.dot)
    return;
  makeColumns(queries, shape.headRow);
  makeColumns(outputGradients, shape.valueRow);
}

void QueryBlock::makeColumns(const Operand &operand, int64_t row) {
  KernelBuilder &kernel = at.kernel;
  if (!shape.isTiled)
    return interleaveRows(kernel, operand.rows, at.groupEnd, row,
                          operand.columns);
  int64_t words = row / 2;
  kernel.loop(0, at.groupEnd, UnitProduct::depth, [&](Value query) {
    turnPairs(kernel, kernel.advance(operand.rows, {kernel.mul(query, words)}),
              words, row,
              kernel.advance(operand.columns, {kernel.div(query, 2)}),
              shape.queries / 2);
  });
}

void QueryBlock::prefetchShare(Index group, Index panel) {
  // Of Q and dO, and of dQ in f32.
  int64_t bytes = (shape.headDim + shape.valueDim) *
                      launch.element.getIntOrFloatBitWidth() / 8 +
                  4 * shape.headDim;
  at.kernel.when(
      areBeyondSecondCache(at.kernel, at.getLength(pos::Side::query), bytes),
      [&] { emitPrefetch(group, panel); });
}

void QueryBlock::emitPrefetch(Index group, Index panel) {
  KernelBuilder &kernel = at.kernel;
  Index groups = kernel.div(at.groupEnd, shape.rows);
  Index share =
      kernel.add(kernel.mul(panel, groups), kernel.div(group, shape.rows));
  Index shares = kernel.mul(at.panelCount, groups);
  auto ask = [&](unsigned tensor, ArrayRef<Index> outer, Index first,
                 Index count, int64_t dim) {
    prefetchRows(
        kernel, at.arguments,
        {tensor, llvm::to_vector<3>(outer), first, count, dim, share, shares});
  };
  ask(*launch.queryGradient, {at.chunk, at.batch, at.head}, at.firstQuery,
      at.groupEnd, shape.headRow);
  Index next = kernel.add(at.firstQuery, shape.queries);
  next =
      kernel.select(kernel.less(next, at.getLength(pos::Side::query)), next, 0);
  ask(launch.sites.query, {at.batch, at.head}, next, shape.queries,
      shape.headParts.get().front().dim);
  for (auto [part, tensor] :
       llvm::zip_equal(shape.valueParts.get(), launch.outputGradients))
    ask(tensor, {at.batch, at.head}, next, shape.queries, part.dim);
}
