//===- ForwardScores.cpp - From products to scores ------------------------===//

#include "codegen/CPU/Forward/ForwardItem.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// The first of `step` places of a range, in the direction of the scans.
Index ForwardItem::inScanOrder(Index place, Index count, int64_t step) {
  if (!task.plan.isLeftward())
    return place;
  Index last = kernel.mul(kernel.div(kernel.sub(count, 1), step), step);
  return kernel.sub(last, place);
}

/// Makes scores of products, stores them and updates the running maxima. Where
/// all scans have reached their limits, they are not run.
void ForwardItem::finishScores(ValueRange products, Index group, bool isMasked,
                               Values &maxima) {
  if (task.plan.scans.empty())
    return finishRows(products, group, isMasked, maxima);
  site.scans.enter(scanSums, task.maxPanels * task.panel, task.vectors);
  auto finish = [&](bool isSaturated) {
    site.scans.setSaturated(isSaturated);
    Values next(maxima);
    finishRows(products, group, isMasked, next);
    if (!isSaturated)
      site.scans.store();
    return next;
  };
  Value isSaturated = site.scans.emitSaturated();
  if (!isSaturated) {
    maxima = finish(false);
    return;
  }
  maxima = kernel.choose(
      isSaturated, ValueRange(maxima).getTypes(), [&] { return finish(true); },
      [&] { return finish(false); });
}

void ForwardItem::finishRows(ValueRange products, Index group, bool isMasked,
                             Values &maxima) {
  Value to = at(scratch.scores, {kernel.mul(group, task.panel)});
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
  for (int64_t v = 0; v < task.vectors; ++v) {
    Values values = columns[v];
    values.push_back(maxima[v]);
    while (values.size() > 1) { // a tree: short chains
      Values next;
      for (size_t i = 0; i + 1 < values.size(); i += 2)
        next.push_back(kernel.maxF(values[i], values[i + 1]));
      if (values.size() % 2)
        next.push_back(values.back());
      values = next;
    }
    maxima[v] = values.front();
  }
}

/// Which queries of the vector at hand see a key. Keys past the end are hidden.
Value ForwardItem::emitVisible(Index keyInBlock) {
  Value isInside = kernel.broadcast(kernel.less(keyInBlock, keyCount));
  pos::MaskOp op = task.plan.mask;
  if (!op)
    return isInside;
  Values visible = callPayload(kernel, op.getBody().front(), {}, site);
  return kernel.both(kernel.broadcast(visible.front()), isInside);
}

/// The score of a product, of row `row` of a group.
Value ForwardItem::emitScore(Value product, Index group, int64_t row,
                             int64_t vector, bool isMasked) {
  Index keyInBlock = kernel.add(group, row);
  site.setPoint(vector, kernel.add(firstKey, keyInBlock), row);
  Value visible = isMasked ? emitVisible(keyInBlock) : Value();
  site.scans.setVisible(visible);
  auto emitPayloadAt = [&](Value argument) {
    pos::ScoreOp op = task.plan.score;
    return callPayload(kernel, op.getBody().front(), argument, site).front();
  };
  ScoreForm::PayloadFunction payload;
  if (task.plan.score)
    payload = emitPayloadAt;
  Value score = form.emitScore(kernel, product, payload);
  return visible ? kernel.selectF(visible, score, kernel.splatF32(hiddenScore))
                 : score;
}
