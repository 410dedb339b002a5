//===- BackwardPacking.cpp - Copies and packed operands of the backward ---===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Rows/RowPullback.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Rows first .. first + count - 1 of a tensor, mapped, to rows of `row`
/// elements.
RowCopy BackwardKernel::getCopy(unsigned tensor, Index first, Index count,
                                int64_t dim, int64_t row, ArrayRef<RowMap> maps,
                                RowSite &rowSite, Value to) {
  RowCopy copy;
  copy.tensor = tensor;
  std::tie(copy.batch, copy.head) = rowSite.getPlace();
  copy.first = first;
  copy.count = count;
  copy.dim = dim;
  copy.maps = maps;
  copy.site = &rowSite;
  copy.to = to;
  copy.rowWords = getWords(row);
  copy.pairs = shape.dot;
  copy.mappedRow = mappedRow;
  return copy;
}

// A column that was read outside of a parameter is NaN. Where it is seen, so
// are the log-sum-exp of the row and all that follows from it; where it is
// hidden it must not reach the products of gradients, in which it meets zeros.

/// Copies the keys of the tile with their columns.
void BackwardKernel::copyKeys(Value to) {
  RowCopy copy =
      getCopy(task.sites.key, firstKey, kernel.mul(panelCount, shape.panel),
              shape.headParts.get().front().dim, shape.headRow,
              task.plan.keyRows, keySite, to);
  copy.clearsNaN = true;
  return emitHeadCopy(kernel, arguments, task.plan, task.sites,
                      pos::RowOperand::key, shape.headParts, copy,
                      task.element);
}

/// Copies the queries of the block with their columns.
void BackwardKernel::copyQueries() {
  RowCopy copy = getCopy(task.sites.query, firstQuery, groupEnd,
                         shape.headParts.get().front().dim, shape.headRow,
                         task.plan.queryRows, querySite, queries.rows);
  copy.clearsNaN = true;
  copy.factor = form.queryFactor;
  return emitHeadCopy(kernel, arguments, task.plan, task.sites,
                      pos::RowOperand::query, shape.headParts, copy,
                      task.element);
}

/// Copies likewise the tensors of a row of values, side by side.
void BackwardKernel::copyParts(ArrayRef<unsigned> tensors, Index first,
                               Index count, ArrayRef<RowMap> maps,
                               RowSite &rowSite, Value to) {
  for (auto [part, tensor] : llvm::zip_equal(shape.valueParts.get(), tensors)) {
    RowCopy copy = getCopy(tensor, first, count, part.dim, shape.valueRow, maps,
                           rowSite, kernel.advance(to, {getWords(part.first)}));
    emitRowCopy(kernel, arguments, copy, task.element);
  }
}

/// rows[panel * panels + lane][k] becomes to[panel][k][lane], times `scale`.
void BackwardKernel::packTile(Value rows, int64_t words, double scale,
                              Value to) {
  int64_t width = kernel.width();
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    Value from = kernel.advance(rows, {kernel.mul(panel, shape.panel * words)});
    Value out = kernel.advance(to, {kernel.mul(panel, shape.panel * words)});
    kernel.loop(0, words, width, [&](Value lane) {
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Values square;
        for (int64_t r = 0; r < width; ++r)
          square.push_back(
              kernel.loadVector(from, {lane, (v * width + r) * words}));
        square = kernel.transpose(square);
        for (int64_t k = 0; k < width; ++k)
          kernel.storeVector(
              scale == 1.0 ? square[k]
                           : kernel.mulF(square[k], kernel.splatF32(scale)),
              out,
              {kernel.mul(lane, shape.panel), k * shape.panel + v * width});
      }
    });
  });
}

/// Rows of bf16 as pairs of rows: to[n / 2][lane] holds lane of rows n, n + 1.
void BackwardKernel::interleaveRows(Value rows, Index count, int64_t row,
                                    Value to) {
  int64_t width = kernel.width(), words = getWords(row);
  kernel.loop(0, count, 2, [&](Value number) {
    Value from = kernel.advance(rows, {kernel.mul(number, words)});
    Value out = kernel.advance(to, {kernel.mul(number, row / 2)});
    for (int64_t word = 0; word < words; word += width) {
      auto [low, high] =
          kernel.interleave(kernel.loadVector(from, {word}),
                            kernel.loadVector(from, {word + words}));
      kernel.storeVector(low, out, {2 * word});
      kernel.storeVector(high, out, {2 * word + width});
    }
  });
}

/// Rows as dQ reads them: rows[n][lane] becomes
/// to[lane / slab][n][lane % slab]. A slab is as wide as the register tile of
/// dQ, so that what one loop over the keys reads lies together: in rows it
/// would take a few sets of the first cache alone.
void BackwardKernel::packSlabs(Value rows, Index count, Value to) {
  int64_t width = kernel.width();
  forEachSlab([&](Index lane, int64_t vectors) {
    Value from = kernel.advance(rows, {lane});
    Value out = getSlab(to, lane);
    kernel.loop(0, count, 1, [&](Value row) {
      for (int64_t v = 0; v < vectors; ++v)
        kernel.storeVector(
            kernel.loadVector(from,
                              {kernel.mul(row, shape.headRow), v * width}),
            out, {kernel.mul(row, vectors * width), v * width});
    });
  });
}

/// The slabs of a row: their first lanes and their vectors.
void BackwardKernel::forEachSlab(function_ref<void(Index, int64_t)> body) {
  int64_t slab = shape.rowVectors * kernel.width();
  int64_t whole = shape.headRow / slab * slab;
  if (whole)
    kernel.loop(0, whole, slab,
                [&](Value lane) { body(lane, shape.rowVectors); });
  if (whole != shape.headRow)
    body(whole, (shape.headRow - whole) / kernel.width());
}

/// The slab that begins at a lane.
Value BackwardKernel::getSlab(Value slabs, Index lane) {
  return kernel.advance(slabs,
                        {kernel.mul(lane, shape.keys / shape.perStep())});
}

void BackwardKernel::beginTile() {
  Index total = kernel.mul(panelCount, shape.panel);
  copyParts(task.sites.values, firstKey, total, task.plan.valueRows, valueSite,
            rowsBuffer);
  packTile(rowsBuffer, getWords(shape.valueRow), 1.0, values.transposed);
  copyKeys(rowsBuffer);
  int64_t words = getWords(shape.headRow);
  packTile(rowsBuffer, words, form.keyFactor, keys.transposed);
  Value rows = rowsBuffer;
  if (shape.dot) { // behind the rows, which take half of the buffer
    rows = kernel.advance(rowsBuffer, {shape.keys * words});
    interleaveRows(rowsBuffer, total, shape.headRow, rows);
  }
  packSlabs(rows, kernel.div(total, shape.perStep()), keyRows);
  kernel.clear(keys.gradient, kernel.mul(total, shape.headRow));
  kernel.clear(values.gradient, kernel.mul(total, shape.valueRow));
}

void BackwardKernel::beginBlock() {
  copyQueries();
  copyParts(task.outputGradients, firstQuery, groupEnd, {}, querySite,
            outputGradients.rows);
  if (shape.dot) {
    interleaveRows(queries.rows, groupEnd, shape.headRow, queries.columns);
    interleaveRows(outputGradients.rows, groupEnd, shape.valueRow,
                   outputGradients.columns);
  }
}

//===----------------------------------------------------------------------===//
// Gradients of keys and values
//===----------------------------------------------------------------------===//

/// A gradient [panel][k][lane] as rows in `rowsBuffer`.
void BackwardKernel::transposeGradient(Value gradient, int64_t row,
                                       double scale) {
  int64_t width = kernel.width();
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    Index start = kernel.mul(panel, shape.panel * row);
    Value from = kernel.advance(gradient, {start});
    Value out = kernel.advance(rowsBuffer, {start});
    kernel.loop(0, row, width, [&](Value lane) {
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Values square;
        for (int64_t k = 0; k < width; ++k)
          square.push_back(
              kernel.loadVector(from, {kernel.mul(lane, shape.panel),
                                       k * shape.panel + v * width}));
        square = kernel.transpose(square);
        for (int64_t r = 0; r < width; ++r)
          kernel.storeVector(
              scale == 1.0 ? square[r]
                           : kernel.mulF(square[r], kernel.splatF32(scale)),
              out, {lane, (v * width + r) * row});
      }
    });
  });
}

/// Stores lanes [part.first, part.first + part.dim) of the rows in `rowsBuffer`
/// as the gradient of the rows of `source`.
void BackwardKernel::storeGradient(const RowPart &part, int64_t row,
                                   ArrayRef<RowMap> maps, RowSite &rowSite,
                                   unsigned source, unsigned tensor) {
  kernel.loop(0, keyCount, 1, [&](Value number) {
    Index key = kernel.add(firstKey, number);
    Value from =
        kernel.advance(rowsBuffer, {kernel.mul(number, row), part.first});
    RowPullback pullback;
    pullback.tensor = source;
    pullback.batch = batch;
    pullback.head = kvHead;
    pullback.row = key;
    pullback.dim = part.dim;
    pullback.maps = maps;
    pullback.site = &rowSite;
    pullback.gradient = from;
    pullback.memory = mappedRow;
    emitRowPullback(kernel, arguments, pullback, task.element);
    storeRow(kernel, from, part.dim,
             arguments.getAddress(tensor, {batch, kvHead, key}),
             arguments.getElementType(tensor));
  });
}

/// Adds the parts of the rows in `rowsBuffer` that belong to columns of keys to
/// the partial sums of their tables' gradients.
void BackwardKernel::addColumnGradients() {
  for (auto [part, columns] :
       llvm::zip_equal(shape.headParts.get().drop_front(), task.plan.columns)) {
    const Hoisted *table = task.plan.find(columns.key, pos::RowOperand::key);
    auto gradient = task.tableGradients[table - task.plan.hoisted.data()];
    if (!gradient)
      continue;
    int64_t lanes = task.plan.countColumns(columns.key), dim = part.dim;
    int64_t first = part.first;
    kernel.loop(0, keyCount, 1, [&](Value number) {
      Value from = kernel.advance(rowsBuffer,
                                  {kernel.mul(number, shape.headRow), first});
      Index entry = kernel.mul(kernel.add(firstKey, number), lanes);
      Value to = arguments.getAddress(*gradient, {0, batch, kvHead, entry});
      for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
        int64_t count = std::min<int64_t>(kernel.width(), dim - lane);
        Value at = kernel.advance(to, {lane});
        Value sum = kernel.addF(kernel.loadPart(kernel.vf32, at, count),
                                kernel.loadVector(from, {lane}));
        kernel.storePart(sum, at, count);
      }
    });
  }
}

void BackwardKernel::endTile() {
  transposeGradient(values.gradient, shape.valueRow, 1.0);
  for (auto [part, source, gradient] : llvm::zip_equal(
           shape.valueParts.get(), task.sites.values, task.valueGradients))
    storeGradient(part, shape.valueRow, task.plan.valueRows, valueSite, source,
                  gradient);
  transposeGradient(keys.gradient, shape.headRow,
                    form.getKeyGradientFactor(task.plan.scale));
  addColumnGradients();
  return storeGradient(shape.headParts.get().front(), shape.headRow,
                       task.plan.keyRows, keySite, task.sites.key,
                       task.keyGradient);
}
