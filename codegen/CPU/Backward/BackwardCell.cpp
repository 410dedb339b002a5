//===- BackwardCell.cpp - P and dS of a group of rows and a panel of keys -===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

//===----------------------------------------------------------------------===//
// Products along lanes: S and dP
//===----------------------------------------------------------------------===//

Values BackwardKernel::emitProduct(const Streamed &streamed,
                                   const Packed &packed, int64_t dim,
                                   int64_t row, Index group, Index panel,
                                   ValueRange initial) {
  int64_t words = getWords(row);
  Value first = kernel.advance(streamed.rows, {kernel.mul(group, words)});
  SmallVector<TileRow> rows;
  for (int64_t r = 0; r < shape.rows; ++r)
    rows.push_back({first, r * words});
  RegisterTile tile;
  tile.rows = rows;
  tile.base = kernel.advance(packed.transposed,
                             {kernel.mul(panel, words * shape.panel)});
  tile.vectorStep = shape.panel;
  tile.vectors = shape.vectors;
  // Padding is zero.
  tile.count =
      llvm::alignTo(shape.dot ? llvm::divideCeil(dim, 2) : dim, tile.unroll);
  tile.pairs = shape.dot;
  return emitTile(kernel, tile, initial);
}

/// A value of a row of queries, in all lanes.
Value BackwardKernel::loadStatistics(unsigned tensor, Index group, Index row) {
  Value base = arguments.getAddress(tensor, {batch, head});
  return kernel.loadBroadcast(base, {firstQuery, group, row});
}

/// Whether payloads stand in a loop over the rows of a cell and take products
/// from memory. A payload with a scan is long, and it is written once for each
/// sweep, with and without mask, and once more for rows that are done: unrolled
/// as well, it would take seconds to compile.
bool BackwardKernel::rollsRows() { return !task.plan.scans.empty(); }

void BackwardKernel::forRows(function_ref<void(Index row)> body) {
  if (rollsRows())
    return kernel.loop(0, shape.rows, 1, [&](Value row) { body(row); });
  for (int64_t row = 0; row < shape.rows; ++row)
    body(row);
}

void BackwardKernel::keepProducts(ValueRange products, Value memory) {
  if (rollsRows())
    for (auto [number, product] : llvm::enumerate(products))
      kernel.storeVector(product, memory,
                         {static_cast<int64_t>(number) * kernel.width()});
}

Values BackwardKernel::loadCell(Value memory) {
  Values cell;
  for (int64_t number = 0; number < shape.rows * shape.vectors; ++number)
    cell.push_back(kernel.loadVector(memory, {number * kernel.width()}));
  return cell;
}

void BackwardKernel::emitCell(Index group, Index panel, bool isMasked) {
  Values initial(shape.rows * shape.vectors, kernel.splatF32(0.0));
  Values scores = emitProduct(queries, keys, shape.headDim, shape.headRow,
                              group, panel, initial);
  emitProbabilities(scores, group, panel, isMasked);
  // The accumulators start at -delta.
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value delta = loadStatistics(task.negativeDelta, group, r);
    for (int64_t v = 0; v < shape.vectors; ++v)
      initial[r * shape.vectors + v] = delta;
  }
  Values gradients = emitProduct(outputGradients, values, shape.valueDim,
                                 shape.valueRow, group, panel, initial);
  emitScoreGradients(gradients, group, panel, isMasked);
  addHingeMoments();
}

void BackwardKernel::addHingeMoments() {
  if (site.scans.getSweep() == BackwardScans::Sweep::Totals)
    return;
  SmallVector<Value> moments;
  for (const PartialSum &sum : task.hingeMoments)
    moments.push_back(sum ? arguments.getAddress(*sum, {chunk, batch, head})
                          : Value());
  hinges.addMoments(batch, head, moments);
}

/// Scans ask which keys are visible.
void BackwardKernel::findVisible(bool isMasked) {
  bool asks = isMasked && !task.plan.scans.empty();
  site.scans.setVisible(asks ? emitVisible() : Value());
}

//===----------------------------------------------------------------------===//
// Scores and what follows from them
//===----------------------------------------------------------------------===//

/// Whether the score payload's pullback needs the score.
bool BackwardKernel::keepsScores() {
  return task.plan.score && !form.isAdditive;
}

Value BackwardKernel::emitVisible() {
  // Lanes past the last key and rows past the last query are hidden as well.
  Value visible = kernel.lanesBelow(
      kernel.sub(arguments.getSize(task.sites.key, 2), site.getKey()));
  Value isRow = kernel.broadcast(
      kernel.less(site.getQuery(), arguments.getSize(task.sites.query, 2)));
  visible = kernel.both(visible, isRow);
  pos::MaskOp mask = task.plan.mask;
  if (!mask)
    return visible;
  Values seen = callPayload(kernel, mask.getBody().front(), {}, site);
  return kernel.both(visible, kernel.broadcast(seen.front()));
}

/// P = exp(score - shift) / sum, of the score that the forward had.
void BackwardKernel::emitProbabilities(ValueRange products, Index group,
                                       Index panel, bool isMasked) {
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  Values stored(shape.rows * shape.vectors);
  site.scans.setReplays(false);
  keepProducts(products, cellScores);
  auto emitRow = [&](Index r) {
    Value negativeShift = loadStatistics(task.negativeShift, group, r);
    Value inverseSum = loadStatistics(task.inverseSum, group, r);
    for (int64_t step = 0; step < shape.vectors; ++step) {
      int64_t v = task.plan.isLeftward() ? shape.vectors - 1 - step : step;
      Index inCell = kernel.add(kernel.mul(r, shape.panel), v * kernel.width());
      Value product = rollsRows()
                          ? kernel.loadVector(cellScores, {inCell})
                          : products[r.getConstant() * shape.vectors + v];
      site.setPoint(r, v);
      findVisible(isMasked);
      auto emitPayloadAt = [&](Value argument) {
        if (keepsScores())
          kernel.storeVector(argument, cellScores, {inCell});
        pos::ScoreOp op = task.plan.score;
        return callPayload(kernel, op.getBody().front(), argument, site)
            .front();
      };
      ScoreForm::PayloadFunction payload;
      if (task.plan.score)
        payload = emitPayloadAt;
      Value score = form.emitScore(kernel, product, payload);
      Value p = kernel.exp2(form.emitExponent(kernel, score, negativeShift),
                            /*isForBf16=*/shape.dot);
      p = kernel.mulF(p, inverseSum);
      if (isMasked)
        p = kernel.selectF(emitVisible(), p, kernel.splatF32(0.0));
      if (shape.dot)
        kernel.storeVector(p, cellProbabilities, {inCell});
      else
        kernel.storeVector(
            p, probabilities,
            {cell, kernel.mul(r, shape.stride), v * kernel.width()});
      if (!rollsRows())
        stored[r.getConstant() * shape.vectors + v] = p;
    }
  };
  forRows(emitRow);
  if (shape.dot)
    storePairs(rollsRows() ? loadCell(cellProbabilities) : stored,
               probabilities, group, panel);
}

/// dS = P (dP - delta), pulled back through the score payload.
void BackwardKernel::emitScoreGradients(ValueRange products, Index group,
                                        Index panel, bool isMasked) {
  pos::ScoreOp scoreOp = task.plan.score;
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  Values stored(shape.rows * shape.vectors);
  site.scans.setReplays(true);
  keepProducts(products, cellSlopes);
  auto emitRow = [&](Index r) {
    for (int64_t step = 0; step < shape.vectors; ++step) {
      int64_t v = task.plan.isLeftward() ? shape.vectors - 1 - step : step;
      Index inCell = kernel.add(kernel.mul(r, shape.panel), v * kernel.width());
      Index place = kernel.add(kernel.mul(r, shape.stride), v * kernel.width());
      Value p = shape.dot ? kernel.loadVector(cellProbabilities, {inCell})
                          : kernel.loadVector(probabilities, {cell, place});
      site.setPoint(r, v);
      Value product = rollsRows()
                          ? kernel.loadVector(cellSlopes, {inCell})
                          : products[r.getConstant() * shape.vectors + v];
      Value slope = addWeightedRows(product, p);
      findVisible(isMasked);
      Value gradient = kernel.mulF(slope, p);
      if (scoreOp) {
        Value score = keepsScores() ? kernel.loadVector(cellScores, {inCell})
                                    : kernel.splatF32(0.0);
        Values pulled = callPullback(kernel, scoreOp.getBody().front(), score,
                                     gradient, site);
        gradient = pulled.front() ? kernel.broadcast(pulled.front())
                                  : kernel.splatF32(0.0);
      }
      if (!rollsRows())
        stored[r.getConstant() * shape.vectors + v] = gradient;
      else if (shape.dot)
        kernel.storeVector(gradient, cellSlopes, {inCell});
      if (site.scans.getSweep() == BackwardScans::Sweep::Totals)
        continue;
      sums.record(gradient, site.getCotangents(), cell, place);
      if (!shape.dot || sums.usesScoreGradients())
        kernel.storeVector(gradient, gradientTile, {cell, place});
    }
  };
  forRows(emitRow);
  if (!shape.dot || site.scans.getSweep() == BackwardScans::Sweep::Totals)
    return;
  if (rollsRows())
    stored = loadCell(cellSlopes);
  storePairs(stored, scoreGradients, group, panel);
  // Neighbouring keys as pairs.
  Value to =
      kernel.advance(scoreGradientRows, {kernel.mul(group, shape.keys / 2),
                                         kernel.mul(panel, shape.panel / 2)});
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < shape.vectors; v += 2) {
      Value both = kernel.truncatePair(stored[r * shape.vectors + v],
                                       stored[r * shape.vectors + v + 1]);
      kernel.store(both, kernel.advance(to, {r * (shape.keys / 2) +
                                             v / 2 * kernel.width()}));
    }
}

/// Two rows of a cell become one row of pairs, in [queries / 2][keys].
void BackwardKernel::storePairs(ValueRange cell, Value pairs, Index group,
                                Index panel) {
  Value to = kernel.advance(pairs, {kernel.mul(group, shape.keys / 2),
                                    kernel.mul(panel, shape.panel)});
  for (int64_t r = 0; r < shape.rows; r += 2)
    for (int64_t v = 0; v < shape.vectors; ++v)
      kernel.storeVector(kernel.pairRows(cell[r * shape.vectors + v],
                                         cell[(r + 1) * shape.vectors + v]),
                         to, {r / 2 * shape.keys + v * kernel.width()});
}

/// A hidden cell is zero wherever a product or a sum may read it.
void BackwardKernel::clearCell(Index group, Index panel) {
  auto clearRows = [&](Value base, int64_t rows, int64_t stride,
                       int64_t vectors) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        kernel.storeVector(kernel.splatF32(0.0), base,
                           {r * stride + v * kernel.width()});
  };
  SmallVector<Value> tiles = sums.getOwnTiles();
  if (!shape.dot)
    tiles.append({probabilities, gradientTile});
  else if (sums.usesScoreGradients())
    tiles.push_back(gradientTile);
  for (const OffsetBlock &block : offsetBlocks)
    tiles.push_back(block.gradients);
  for (Value tile : tiles)
    clearRows(kernel.advance(tile, {kernel.mul(group, shape.stride),
                                    kernel.mul(panel, shape.panel)}),
              shape.rows, shape.stride, shape.vectors);
  if (!shape.dot)
    return;
  for (Value pairs : {probabilities, scoreGradients})
    clearRows(kernel.advance(pairs, {kernel.mul(group, shape.keys / 2),
                                     kernel.mul(panel, shape.panel)}),
              shape.rows / 2, shape.keys, shape.vectors);
  clearRows(
      kernel.advance(scoreGradientRows, {kernel.mul(group, shape.keys / 2),
                                         kernel.mul(panel, shape.panel / 2)}),
      shape.rows, shape.keys / 2, shape.vectors / 2);
}
