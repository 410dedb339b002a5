//===- BackwardCell.cpp - P and dS of a register tile ---------------------===//

#include "codegen/CPU/Backward/BackwardCell.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

BackwardCell::BackwardCell(BackwardItem &at, const KeyTile &keys,
                           const QueryBlock &queries, BackwardPoint &point,
                           BackwardVisibility &visibility, GradientSums &sums,
                           const ScoreForm &form)
    : at(at), keys(keys), queries(queries), point(point),
      visibility(visibility), sums(sums), form(form) {
  Value gradientTile = sums.reserveTile();
  int64_t pairs = shape.queries / 2 * shape.keys;
  Value probabilities = at.reserveNear(
      shape.dot ? pairs : shape.queries * shape.stride, "probabilities");
  Value scoreGradients = shape.dot ? at.reserve(pairs) : gradientTile;
  Value scoreGradientRows = shape.dot ? at.reserve(pairs) : gradientTile;
  tiles = {probabilities, scoreGradients, scoreGradientRows, gradientTile};
  cellProbabilities = at.reserveNear(shape.rows * shape.panel, "cells");
  cellScores = at.reserveNear(shape.rows * shape.panel, "cells");
  cellSlopes = at.reserve(rollsRows() ? shape.rows * shape.panel : 0);
}

//===----------------------------------------------------------------------===//
// Products along lanes: S and dP
//===----------------------------------------------------------------------===//

Values BackwardCell::emitProduct(const QueryBlock::Operand &streamed,
                                 const KeyTile::Operand &packed, Index group,
                                 Index panel, ValueRange initial) {
  int64_t words = packed.row / shape.perStep();
  Value first = kernel.advance(streamed.rows, {kernel.mul(group, words)});
  SmallVector<TileRow> rows = getTileRows(first, shape.rows, words);
  RegisterTile tile;
  tile.rows = rows;
  tile.base = kernel.advance(packed.transposed,
                             {kernel.mul(panel, words * shape.panel)});
  tile.vectorStep = shape.panel;
  tile.vectors = shape.vectors;
  // Padding is zero.
  tile.count =
      llvm::alignTo(llvm::divideCeil(packed.dim, shape.perStep()), tile.unroll);
  tile.pairs = shape.dot;
  return emitTile(kernel, tile, initial);
}

/// A value of a row of queries, in all lanes.
Value BackwardCell::loadStatistics(unsigned tensor, Index group, Index row) {
  Value base = at.arguments.getAddress(tensor, {at.batch, at.head});
  return kernel.loadBroadcast(base, {at.firstQuery, group, row});
}

void BackwardCell::emit(Index group, Index panel, bool isMasked) {
  Values initial(shape.rows * shape.vectors, kernel.splatF32(0.0));
  Values scores =
      emitProduct(queries.getQueries(), keys.getKeys(), group, panel, initial);
  emitProbabilities(scores, group, panel, isMasked);
  // The accumulators start at -delta.
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value delta = loadStatistics(launch.negativeDelta, group, r);
    for (int64_t v = 0; v < shape.vectors; ++v)
      initial[r * shape.vectors + v] = delta;
  }
  Values gradients = emitProduct(queries.getOutputGradients(), keys.getValues(),
                                 group, panel, initial);
  emitScoreGradients(gradients, group, panel, isMasked);
}

//===----------------------------------------------------------------------===//
// Points of a cell
//===----------------------------------------------------------------------===//

void BackwardCell::forRows(function_ref<void(Index row)> body) {
  if (rollsRows())
    return kernel.loop(0, shape.rows, 1, [&](Value row) { body(row); });
  for (int64_t row = 0; row < shape.rows; ++row)
    body(row);
}

void BackwardCell::keepProducts(ValueRange products, Value memory) {
  if (rollsRows())
    for (auto [number, product] : llvm::enumerate(products))
      kernel.storeVector(product, memory,
                         {static_cast<int64_t>(number) * kernel.width()});
}

Values BackwardCell::loadCell(Value memory) {
  Values cell;
  for (int64_t number = 0; number < shape.rows * shape.vectors; ++number)
    cell.push_back(kernel.loadVector(memory, {number * kernel.width()}));
  return cell;
}

/// Moves the point to a vector of a row, in the order of the scans.
BackwardCell::ScoreVector BackwardCell::enterPoint(ValueRange products,
                                                   Value memory, Index row,
                                                   int64_t step) {
  int64_t v = launch.plan.isLeftward() ? shape.vectors - 1 - step : step;
  Index inCell = kernel.add(kernel.mul(row, shape.panel), v * kernel.width());
  Value product = rollsRows() ? kernel.loadVector(memory, {inCell})
                              : products[row.getConstant() * shape.vectors + v];
  point.setPoint(row, v);
  return {v, product, inCell};
}

/// Scans ask which keys are visible.
void BackwardCell::findVisible(bool isMasked) {
  bool asks = isMasked && !launch.plan.scans.empty();
  point.scans.setVisible(asks ? visibility.emitLanes() : Value());
}

//===----------------------------------------------------------------------===//
// Scores and what follows from them
//===----------------------------------------------------------------------===//

/// P = exp(score - shift) / sum, of the score that the forward had.
void BackwardCell::emitProbabilities(ValueRange products, Index group,
                                     Index panel, bool isMasked) {
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  Values stored(shape.rows * shape.vectors);
  point.scans.setReplays(false);
  keepProducts(products, cellScores);
  auto emitRow = [&](Index r) {
    Value negativeShift = loadStatistics(launch.negativeShift, group, r);
    Value inverseSum = loadStatistics(launch.inverseSum, group, r);
    for (int64_t step = 0; step < shape.vectors; ++step) {
      auto [v, product, inCell] = enterPoint(products, cellScores, r, step);
      findVisible(isMasked);
      auto emitPayloadAt = [&](Value argument) {
        if (keepsScores())
          kernel.storeVector(argument, cellScores, {inCell});
        pos::ScoreOp op = launch.plan.score;
        return callPayload(kernel, op.getBody().front(), argument, point)
            .front();
      };
      ScoreForm::PayloadFunction payload;
      if (launch.plan.score)
        payload = emitPayloadAt;
      Value score = form.emitScore(kernel, product, payload);
      Value p = kernel.exp2(form.emitExponent(kernel, score, negativeShift),
                            /*isForBf16=*/shape.dot);
      p = kernel.mulF(p, inverseSum);
      if (isMasked)
        p = kernel.selectF(visibility.emitLanes(), p, kernel.splatF32(0.0));
      if (shape.dot)
        kernel.storeVector(p, cellProbabilities, {inCell});
      else
        kernel.storeVector(
            p, tiles.probabilities,
            {cell, kernel.mul(r, shape.stride), v * kernel.width()});
      if (!rollsRows())
        stored[r.getConstant() * shape.vectors + v] = p;
    }
  };
  forRows(emitRow);
  if (shape.dot)
    storePairs(rollsRows() ? loadCell(cellProbabilities) : stored,
               getPairs(tiles.probabilities, group, panel));
}

/// dS = P (dP - delta), pulled back through the score payload.
void BackwardCell::emitScoreGradients(ValueRange products, Index group,
                                      Index panel, bool isMasked) {
  pos::ScoreOp scoreOp = launch.plan.score;
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  Values stored(shape.rows * shape.vectors);
  point.scans.setReplays(true);
  keepProducts(products, cellSlopes);
  auto emitRow = [&](Index r) {
    for (int64_t step = 0; step < shape.vectors; ++step) {
      auto [v, product, inCell] = enterPoint(products, cellSlopes, r, step);
      Index place = kernel.add(kernel.mul(r, shape.stride), v * kernel.width());
      Value p = shape.dot
                    ? kernel.loadVector(cellProbabilities, {inCell})
                    : kernel.loadVector(tiles.probabilities, {cell, place});
      Value slope = addWeightedRows(product, p);
      findVisible(isMasked);
      Value gradient = kernel.mulF(slope, p);
      if (scoreOp) {
        Value score = keepsScores() ? kernel.loadVector(cellScores, {inCell})
                                    : kernel.splatF32(0.0);
        Values pulled = callPullback(kernel, scoreOp.getBody().front(), score,
                                     gradient, point);
        gradient = pulled.front() ? kernel.broadcast(pulled.front())
                                  : kernel.splatF32(0.0);
      }
      if (!rollsRows())
        stored[r.getConstant() * shape.vectors + v] = gradient;
      else if (shape.dot)
        kernel.storeVector(gradient, cellSlopes, {inCell});
      if (point.scans.getSweep() == BackwardScans::Sweep::Totals)
        continue;
      sums.record(gradient, point.getCotangents(), cell, place);
      if (!shape.dot || sums.usesScoreGradients())
        kernel.storeVector(gradient, tiles.gradientTile, {cell, place});
    }
  };
  forRows(emitRow);
  if (!shape.dot || point.scans.getSweep() == BackwardScans::Sweep::Totals)
    return;
  if (rollsRows())
    stored = loadCell(cellSlopes);
  storePairs(stored, getPairs(tiles.scoreGradients, group, panel));
  // Neighbouring keys as pairs.
  Value to = getPairs(tiles.scoreGradientRows, group, panel, /*keysPerWord=*/2);
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < shape.vectors; v += 2) {
      Value both = kernel.truncatePair(stored[r * shape.vectors + v],
                                       stored[r * shape.vectors + v + 1]);
      kernel.store(both, kernel.advance(to, {r * (shape.keys / 2) +
                                             v / 2 * kernel.width()}));
    }
}

/// Where a cell is in a tile of pairs: of rows, [queries / 2][keys], or of
/// neighbouring keys, [queries][keys / 2].
Value BackwardCell::getPairs(Value tile, Index group, Index panel,
                             int64_t keysPerWord) {
  return kernel.advance(tile, {kernel.mul(group, shape.keys / 2),
                               kernel.mul(panel, shape.panel / keysPerWord)});
}

/// Two rows of a cell become one row of pairs.
void BackwardCell::storePairs(ValueRange cell, Value pairs) {
  for (int64_t r = 0; r < shape.rows; r += 2)
    for (int64_t v = 0; v < shape.vectors; ++v)
      kernel.storeVector(kernel.pairRows(cell[r * shape.vectors + v],
                                         cell[(r + 1) * shape.vectors + v]),
                         pairs, {r / 2 * shape.keys + v * kernel.width()});
}

/// What weighted rows add to dP, and the sums of P per row of their tables.
Value BackwardCell::addWeightedRows(Value gradient, Value p) {
  for (size_t number = 0; number < launch.plan.weightedRows.size(); ++number) {
    pos::WeightedRowsOp op = launch.plan.weightedRows[number];
    Values row = callPayload(kernel, op.getBody().front(), {}, point);
    auto table = cast<BlockArgument>(op.getTable());
    Index rows =
        at.arguments.getSize(*launch.sites.params[table.getArgNumber()], 0);
    Value product = kernel.broadcast(point.products.readQueryProducts(
        launch.sites.outputProducts[number], rows, row.front(), /*runs=*/true));
    // A hidden key may have any row.
    Value isSeen =
        kernel.compareF(arith::CmpFPredicate::UNE, p, kernel.splatF32(0.0));
    gradient = kernel.addF(
        gradient, kernel.selectF(isSeen, product, kernel.splatF32(0.0)));
    if (launch.bucketGradients[number] &&
        point.scans.getSweep() != BackwardScans::Sweep::Totals)
      point.products.addToQueryProducts(*launch.bucketGradients[number], rows,
                                        row.front(), p, /*runs=*/true);
  }
  return gradient;
}

void BackwardCell::clear(Index group, Index panel, ArrayRef<Value> others) {
  auto clearRows = [&](Value base, int64_t rows, int64_t stride,
                       int64_t vectors) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        kernel.storeVector(kernel.splatF32(0.0), base,
                           {r * stride + v * kernel.width()});
  };
  SmallVector<Value> cleared = sums.getOwnTiles();
  if (!shape.dot)
    cleared.append({tiles.probabilities, tiles.gradientTile});
  else if (sums.usesScoreGradients())
    cleared.push_back(tiles.gradientTile);
  llvm::append_range(cleared, others);
  for (Value tile : cleared)
    clearRows(kernel.advance(tile, {kernel.mul(group, shape.stride),
                                    kernel.mul(panel, shape.panel)}),
              shape.rows, shape.stride, shape.vectors);
  if (!shape.dot)
    return;
  for (Value pairs : {tiles.probabilities, tiles.scoreGradients})
    clearRows(getPairs(pairs, group, panel), shape.rows / 2, shape.keys,
              shape.vectors);
  clearRows(getPairs(tiles.scoreGradientRows, group, panel, /*keysPerWord=*/2),
            shape.rows, shape.keys / 2, shape.vectors / 2);
}
