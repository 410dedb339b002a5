//===- ScoreCell.cpp - The scores of a register tile ----------------------===//

#include "codegen/CPU/Forward/ScoreCell.h"
#include "codegen/CPU/Forward/OnlineSoftmax.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

ScoreCell::ScoreCell(ForwardPlace &place, ScanSweep &sweep)
    : place(place), kernel(place.kernel), task(place.task), site(place.site),
      sweep(sweep),
      cells(kernel, place.arguments, task.plan, task.sites,
            place.at(place.layout.reserve(getCellHoists(task.plan).size() *
                                          task.rows * task.panel)),
            task.rows, task.vectors),
      hinges(kernel, place.arguments, task.plan, task.sites,
             place.at(place.layout.reserve(
                 HingeCells::countWords(task.plan, task.rows * task.panel))),
             task.rows, task.vectors, /*hasGradients=*/false) {
  site.setCells(&cells);
  site.setHinges(&hinges);
}

void ScoreCell::hide(Index group) {
  Values hidden(task.rows * task.vectors, kernel.splatF32(hiddenScore));
  storeVectors(kernel, hidden, place.getScores(group));
}

Values codegen::emitProducts(const ForwardPlace &place, ArrayRef<TileRow> keys,
                             Value query) {
  const ForwardTask &task = place.task;
  RegisterTile product = place.getTile(keys, query, task.queryWords);
  product.pairs = task.pairs;
  Values zeros(task.rows * task.vectors, place.kernel.splatF32(0));
  return emitTile(place.kernel, product, zeros);
}

Values ScoreCell::emit(Index group, Value keys, ValueRange maxima,
                       const TileClass &tile) {
  // Before the products, which then stay in registers until they are scores.
  auto moveTo = [&](Index row, Index vector) {
    site.setPoint(vector, kernel.add(kernel.add(place.firstKey, group), row),
                  row);
  };
  cells.fill(site, moveTo);
  hinges.fill(site, moveTo);
  Value first = kernel.advance(keys, {kernel.mul(group, task.keyWords)});
  SmallVector<TileRow> rows;
  for (int64_t row = 0; row < task.rows; ++row)
    rows.push_back({first, row * task.keyWords});
  Values products = emitProducts(place, rows, query);

  Value isWhole = kernel.compare(arith::CmpIPredicate::sle,
                                 kernel.add(group, task.rows), place.keyCount);
  if (task.plan.mask)
    isWhole = tile.certain ? kernel.both(isWhole, tile.certain)
                           : kernel.constantI1(false);
  auto finish = [&](bool isMasked) {
    return sweep.run(maxima.getTypes(), [&] {
      return emitScores(products, group, isMasked, maxima);
    });
  };
  return kernel.choose(
      isWhole, maxima.getTypes(), [&] { return finish(false); },
      [&] { return finish(true); });
}

Values ScoreCell::emitScores(ValueRange products, Index group, bool isMasked,
                             ValueRange maxima) {
  Value to = place.getScores(group);
  SmallVector<Values> columns(task.vectors);
  for (int64_t step = 0; step < task.rows; ++step) {
    int64_t row = task.plan.isLeftward() ? task.rows - 1 - step : step;
    for (int64_t v = 0; v < task.vectors; ++v) {
      int64_t number = row * task.vectors + v;
      Value score = emitScore(products[number], group, row, v, isMasked);
      kernel.storeVector(score, to, {number * kernel.width()});
      columns[v].push_back(score);
    }
  }
  Values next;
  for (auto [scores, maximum] : llvm::zip_equal(columns, maxima)) {
    scores.push_back(maximum);
    next.push_back(emitMaximum(kernel, scores));
  }
  return next;
}

/// The score of a product, of row `row` of a group.
Value ScoreCell::emitScore(Value product, Index group, int64_t row,
                           int64_t vector, bool isMasked) {
  Index keyInBlock = kernel.add(group, row);
  site.setPoint(vector, kernel.add(place.firstKey, keyInBlock), row);
  Value visible; // which queries of the vector see the key
  if (isMasked)
    visible = kernel.broadcast(kernel.less(keyInBlock, place.keyCount));
  if (pos::MaskOp op = task.plan.mask; op && isMasked) {
    Value isSeen = callPayload(kernel, op.getBody().front(), {}, site).front();
    visible = kernel.both(kernel.broadcast(isSeen), visible);
  }
  site.scans.setVisible(visible);
  auto emitPayloadAt = [&](Value argument) {
    pos::ScoreOp op = task.plan.score;
    return callPayload(kernel, op.getBody().front(), argument, site).front();
  };
  ScoreForm::PayloadFunction payload;
  if (task.plan.score)
    payload = emitPayloadAt;
  Value score = place.form.emitScore(kernel, product, payload);
  return visible ? kernel.selectF(visible, score, kernel.splatF32(hiddenScore))
                 : score;
}
