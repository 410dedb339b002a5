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
  int64_t pairs = shape.countTerms() * shape.countTermWords(shape.keys);
  bool hasPairs = shape.hasPairs();
  Value probabilities =
      at.reserveNear(hasPairs ? pairs : shape.queries * shape.probabilityStride,
                     "probabilities");
  Value scoreGradients = hasPairs ? at.reserve(pairs) : gradientTile;
  Value scoreGradientRows = hasPairs ? at.reserve(pairs) : gradientTile;
  tiles = {probabilities, scoreGradients, scoreGradientRows, gradientTile};
  // Products of a row that is not written out come from memory, too.
  bool readsScores = !shape.isNear || keepsScores() || rollsRows();
  int64_t words = shape.rows * shape.panel;
  cellProbabilities =
      at.reserve(hasPairs || !shape.isNear ? words : 0, "cells");
  cellScores = at.reserve(readsScores ? words : 0, "cells");
  // Scores are done with before slopes are there, but where they are kept.
  cellSlopes =
      rollsRows() && keepsScores() ? at.reserve(words, "cells") : cellScores;
  if (!shape.isTiled)
    return;
  tileScores = at.reserve(shape.queries * shape.keys, "products");
  tileSlopes = at.reserve(shape.queries * shape.keys, "products");
}

//===----------------------------------------------------------------------===//
// Products along lanes: S and dP
//===----------------------------------------------------------------------===//

void BackwardCell::multiplyPanel(Index panel) {
  auto multiply = [&](const QueryBlock::Operand &streamed,
                      const KeyTile::Operand &packed, Value sums) {
    int64_t words = packed.row / shape.perStep();
    UnitProduct product;
    product.a = streamed.rows;
    product.aStride = words;
    product.b = kernel.advance(
        packed.transposed,
        {kernel.mul(panel, shape.countTerms() * words * packed.stride)});
    product.bStride = packed.stride;
    // As the forward, which has them the other way round.
    if (shape.hasTerms())
      product.terms = {shape.countTermWords(packed.row), words * packed.stride,
                       /*haveChangedPlaces=*/true};
    product.sums = getProducts(sums, 0, panel);
    product.stride = shape.panel;
    product.rows = at.groupEnd;
    product.words = words;
    emitUnitProduct(kernel, product);
  };
  multiply(queries.getQueries(), keys.getKeys(), tileScores);
  multiply(queries.getOutputGradients(), keys.getValues(), tileSlopes);
}

/// Those of a group of rows and a panel, and what follows them.
Value BackwardCell::getProducts(Value memory, Index group, Index panel) {
  return kernel.advance(memory, {kernel.mul(panel, shape.queries * shape.panel),
                                 kernel.mul(group, shape.panel)});
}

Values BackwardCell::emitProduct(const QueryBlock::Operand &streamed,
                                 const KeyTile::Operand &packed, Index group,
                                 Index panel, ValueRange initial) {
  int64_t words = packed.row / shape.perStep();
  Value first = kernel.advance(streamed.rows, {kernel.mul(group, words)});
  SmallVector<TileRow> rows = getTileRows(first, shape.rows, words);
  RegisterTile tile;
  tile.rows = rows;
  tile.base = kernel.advance(packed.transposed,
                             {kernel.mul(panel, words * packed.stride)});
  tile.vectorStep = packed.stride;
  tile.vectors = shape.vectors;
  tile.unroll = shape.unroll;
  if (shape.isNear)
    tile.alignment = 16;
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

Values BackwardCell::emitScoreProducts(Index group, Index panel) {
  if (shape.isTiled)
    return loadCell(getProducts(tileScores, group, panel));
  Values initial(shape.rows * shape.vectors, kernel.splatF32(0.0));
  return emitProduct(queries.getQueries(), keys.getKeys(), group, panel,
                     initial);
}

/// dP - delta: the accumulators start at -delta.
Values BackwardCell::emitSlopeProducts(Index group, Index panel) {
  Values initial;
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value delta = loadStatistics(launch.negativeDelta, group, r);
    initial.append(shape.vectors, delta);
  }
  if (!shape.isTiled)
    return emitProduct(queries.getOutputGradients(), keys.getValues(), group,
                       panel, initial);
  Values slopes = loadCell(getProducts(tileSlopes, group, panel));
  for (auto [slope, delta] : llvm::zip_equal(slopes, initial))
    slope = kernel.addF(slope, delta);
  return slopes;
}

void BackwardCell::emit(Index group, Index panel, Value isWhole) {
  auto forMask = [&](function_ref<void(bool isMasked)> body) {
    kernel.when(isWhole, [&] { body(false); }, [&] { body(true); });
  };
  if (!rollsRows())
    return forMask([&](bool isMasked) {
      emitProbabilities(emitScoreProducts(group, panel), group, panel,
                        isMasked);
      emitScoreGradients(emitSlopeProducts(group, panel), group, panel,
                         isMasked);
    });
  // Rows take products from memory, so products are the same code for both.
  keepProducts(emitScoreProducts(group, panel), cellScores);
  forMask(
      [&](bool isMasked) { emitProbabilities({}, group, panel, isMasked); });
  keepProducts(emitSlopeProducts(group, panel), cellSlopes);
  forMask(
      [&](bool isMasked) { emitScoreGradients({}, group, panel, isMasked); });
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
  int64_t stride = shape.probabilityStride;
  Index cell =
      kernel.add(kernel.mul(group, stride), kernel.mul(panel, shape.panel));
  Values stored(shape.rows * shape.vectors), scores(stored);
  point.scans.setReplays(false);
  auto emitRow = [&](Index r) {
    Value negativeShift = loadStatistics(launch.negativeShift, group, r);
    Value inverseSum = loadStatistics(launch.inverseSum, group, r);
    for (int64_t step = 0; step < shape.vectors; ++step) {
      auto [v, product, inCell] = enterPoint(products, cellScores, r, step);
      findVisible(isMasked);
      auto emitPayloadAt = [&](Value argument) {
        if (storesLast())
          scores[r.getConstant() * shape.vectors + v] = argument;
        else if (keepsScores())
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
      if (shape.hasPairs())
        kernel.storeVector(p, cellProbabilities, {inCell});
      else if (!storesLast())
        kernel.storeVector(p, tiles.probabilities,
                           {cell, kernel.mul(r, stride), v * kernel.width()});
      if (!rollsRows())
        stored[r.getConstant() * shape.vectors + v] = p;
    }
  };
  forRows(emitRow);
  if (storesLast()) {
    probabilities = stored;
    for (auto [number, p] : llvm::enumerate(stored)) {
      int64_t place = static_cast<int64_t>(number);
      kernel.storeVector(p, tiles.probabilities,
                         {cell, place / shape.vectors * stride,
                          place % shape.vectors * kernel.width()});
      if (keepsScores())
        kernel.storeVector(scores[number], cellScores,
                           {place * kernel.width()});
    }
  }
  if (shape.hasPairs())
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
  struct Row {
    Value gradient;
    SmallVector<HoistCotangent> cotangents;
    Index place;
  };
  SmallVector<Row> last;
  auto loadProbability = [&](Index r, int64_t v, Index inCell) {
    if (storesLast())
      return probabilities[r.getConstant() * shape.vectors + v];
    if (shape.hasPairs())
      return kernel.loadVector(cellProbabilities, {inCell});
    int64_t stride = shape.probabilityStride;
    return kernel.loadVector(
        tiles.probabilities,
        {kernel.mul(group, stride), kernel.mul(panel, shape.panel),
         kernel.add(kernel.mul(r, stride), v * kernel.width())});
  };
  auto emitRow = [&](Index r) {
    for (int64_t step = 0; step < shape.vectors; ++step) {
      auto [v, product, inCell] = enterPoint(products, cellSlopes, r, step);
      Index place = kernel.add(kernel.mul(r, shape.stride), v * kernel.width());
      Value p = loadProbability(r, v, inCell);
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
      else if (shape.hasPairs())
        kernel.storeVector(gradient, cellSlopes, {inCell});
      if (point.scans.getSweep() == BackwardScans::Sweep::Totals)
        continue;
      if (storesLast())
        last.push_back({gradient,
                        SmallVector<HoistCotangent>(point.getCotangents()),
                        place});
      else
        storeScoreGradient(gradient, point.getCotangents(), cell, place);
    }
  };
  forRows(emitRow);
  for (const Row &row : last)
    storeScoreGradient(row.gradient, row.cotangents, cell, row.place);
  if (!shape.hasPairs() ||
      point.scans.getSweep() == BackwardScans::Sweep::Totals)
    return;
  if (rollsRows())
    stored = loadCell(cellSlopes);
  storePairs(stored, getPairs(tiles.scoreGradients, group, panel));
  // Neighbouring keys as pairs.
  Value to = getPairs(tiles.scoreGradientRows, group, panel, /*keysPerWord=*/2);
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < shape.vectors; v += 2)
      storePair(
          stored[r * shape.vectors + v], stored[r * shape.vectors + v + 1],
          Pairs::Neighbours,
          kernel.advance(to, {r * (shape.keys / 2) + v / 2 * kernel.width()}));
}

/// Leaves dS, and what follows from it, where products and sums read them.
void BackwardCell::storeScoreGradient(Value gradient,
                                      ArrayRef<HoistCotangent> cotangents,
                                      Index cell, Index place) {
  sums.record(gradient, cotangents, cell, place);
  if (!shape.hasPairs() || sums.usesScoreGradients())
    kernel.storeVector(gradient, tiles.gradientTile, {cell, place});
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
      storePair(
          cell[r * shape.vectors + v], cell[(r + 1) * shape.vectors + v],
          Pairs::Rows,
          kernel.advance(pairs, {r / 2 * shape.keys + v * kernel.width()}));
}

/// Two vectors of scores as bf16 or as terms.
void BackwardCell::storePair(Value low, Value high, Pairs pairs, Value to) {
  if (shape.hasTerms())
    return storeTerms(kernel, splitPair(kernel, low, high, pairs, Split::Cuts),
                      to, shape.countTermWords(shape.keys));
  kernel.store(pairs == Pairs::Rows ? kernel.pairRows(low, high)
                                    : kernel.truncatePair(low, high),
               to);
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
  if (!shape.hasPairs()) {
    cleared.push_back(tiles.gradientTile);
    clearRows(kernel.advance(tiles.probabilities,
                             {kernel.mul(group, shape.probabilityStride),
                              kernel.mul(panel, shape.panel)}),
              shape.rows, shape.probabilityStride, shape.vectors);
  } else if (sums.usesScoreGradients()) {
    cleared.push_back(tiles.gradientTile);
  }
  llvm::append_range(cleared, others);
  for (Value tile : cleared)
    clearRows(kernel.advance(tile, {kernel.mul(group, shape.stride),
                                    kernel.mul(panel, shape.panel)}),
              shape.rows, shape.stride, shape.vectors);
  if (!shape.hasPairs())
    return;
  for (int64_t term = 0; term < shape.countTerms(); ++term) {
    auto getTerm = [&](Value tile, int64_t keysPerWord) {
      return kernel.advance(getPairs(tile, group, panel, keysPerWord),
                            {term * shape.countTermWords(shape.keys)});
    };
    for (Value pairs : {tiles.probabilities, tiles.scoreGradients})
      clearRows(getTerm(pairs, 1), shape.rows / 2, shape.keys, shape.vectors);
    clearRows(getTerm(tiles.scoreGradientRows, 2), shape.rows, shape.keys / 2,
              shape.vectors / 2);
  }
}
