//===- ReferenceBackward.cpp - Gradient of attention by its definition ----===//
//
// With p = exp(s - shift) / sum and delta = sum(do * o) - dlse, the gradient of
// the final score is p (do . v - delta); the payload's pullback turns it into
// that of the scaled product and of parameters.
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceAllHeads.h"
#include "codegen/Reference/ReferenceScore.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

namespace {
/// All query heads of a batch element that share a head of keys.
class HeadGroup {
public:
  HeadGroup(ReferenceBuilder &r, const AttentionTensors &t, Index batch,
            Index keyHead);
  void run();

private:
  void runQuery(Index head, Index i);
  void pullPair(Index head, Index i, Index j, Value delta);
  Value emitRaw(Index j);
  Value emitScore(Index head, Index i, Index j, Value raw);
  Value pullScore(Value raw, Value cotangent);
  void pullRowTerm(Index head, Index i);

  ReferenceBuilder &r;
  KernelBuilder &k;
  const KernelPlan &plan;
  const AttentionTensors &t;
  Index batch, keyHead, keys;
  OperandRows query, key;
  SmallVector<OperandRows> values;
  SmallVector<Matrix> seeds; ///< gradients of the outputs of a query
};
} // namespace

HeadGroup::HeadGroup(ReferenceBuilder &r, const AttentionTensors &t,
                     Index batch, Index keyHead)
    : r(r), k(r.k), plan(r.point.getPlan()), t(t), batch(batch),
      keyHead(keyHead), keys(r.arguments.getSize(t.key, 2)),
      query(allocateRows(r, RowOperand::query, t.query, 1, true)),
      key(allocateRows(r, RowOperand::key, t.key, keys, true)) {
  for (unsigned value : t.values) {
    values.push_back(allocateRows(r, RowOperand::value, value, keys, true));
    seeds.push_back(r.allocate(1, r.arguments.getSize(value, 3)));
  }
  r.point.rows = &r;
  ContextualRow &contextual = r.point.contextual;
  contextual = allocateContextual(r, r.arguments.getSize(t.query, 3), keys);
  contextual.key = t.key;
  contextual.keyHead = keyHead;
  if (plan.readsRows(pos::Side::key)) {
    contextual.keyGradients = r.allocate(keys, contextual.query.width);
    r.clear(contextual.keyGradients, keys);
  }
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

/// The scaled product with a key.
Value HeadGroup::emitRaw(Index j) {
  return r.mul(r.dot(query.rows, 0, key.rows, j), r.constant(plan.scale));
}

Value HeadGroup::emitScore(Index head, Index i, Index j, Value raw) {
  r.point.moveToPair(batch, head, i, j);
  return finalScore(r, raw);
}

/// The cotangent of the scaled product from that of the final score.
Value HeadGroup::pullScore(Value raw, Value cotangent) {
  pos::ScoreOp site = plan.score;
  if (!site)
    return cotangent;
  Value pulled =
      callPullback(k, site.getBody().front(), {raw}, {cotangent}, r.point)
          .front();
  return pulled ? pulled : r.constant(0.0);
}

void HeadGroup::pullPair(Index head, Index i, Index j, Value delta) {
  Value raw = emitRaw(j), score = emitScore(head, i, j, raw);
  Value hidden = r.constant(-std::numeric_limits<double>::infinity());
  k.when(k.compareF(arith::CmpFPredicate::UNE, score, hidden), [&] {
    Value weight = emitWeight(r, t, batch, head, i, score);
    Value slope = r.sub(r.constant(0.0), delta);
    for (auto [value, seed] : llvm::zip(values, seeds)) {
      slope = r.add(slope, r.dot(seed, 0, value.rows, j));
      r.addRow(value.gradient, j, weight, seed, 0);
    }
    for (pos::WeightedRowsOp op : plan.weightedRows) {
      slope = r.add(slope, dotWeighted(r, op, seeds.front()));
      addToWeighted(r, op, seeds.front(), weight);
    }
    Value product =
        r.mul(pullScore(raw, r.mul(weight, slope)), r.constant(plan.scale));
    r.addRow(query.gradient, 0, product, key.rows, j);
    r.addRow(key.gradient, j, product, query.rows, 0);
  });
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

/// The gradient of the row term is that of the row's log-sum-exp.
void HeadGroup::pullRowTerm(Index head, Index i) {
  pos::RowTermOp site = plan.rowTerm;
  if (!site || !r.point.wantsGradient(site.getHoist()))
    return;
  // A row that sees no key has a log-sum-exp whatever its term is (C4).
  Value sum = r.loadElement(*t.statistics, {batch, head, i, 1});
  Value seesKeys = k.compareF(arith::CmpFPredicate::UNE, sum, r.constant(0.0));
  Value cotangent =
      k.selectF(seesKeys, r.loadElement(t.lseGradient, {batch, head, i}),
                r.constant(0.0));
  r.point.moveToPair(batch, head, i, 0);
  r.point.addToHoisted(k.builder, site.getHoist(), cotangent);
}

/// One query row against all keys.
void HeadGroup::runQuery(Index head, Index i) {
  ContextualRow &contextual = r.point.contextual;
  Value delta = loadDelta(r, t, batch, head, i, seeds, 0);
  pullRowTerm(head, i);
  r.loadRow(t.query, {batch, head, i}, contextual.query, 0);
  r.clear(contextual.gradient, 1);
  if (!plan.scans.empty()) { // the running sums
    contextual.replays = false;
    r.clear(contextual.carry, plan.scans.size());
    k.loop(0, keys, 1, [&](Value step) {
      Index j = toKey(r, step, keys);
      emitScore(head, i, j, emitRaw(j));
    });
    contextual.replays = true;
    r.clear(contextual.carry, plan.scans.size());
  }
  k.loop(0, keys, 1,
         [&](Value step) { pullPair(head, i, toKey(r, step, keys), delta); });
}

void HeadGroup::run() {
  k.loop(0, keys, 1, [&](Value j) {
    loadMapped(r, key, batch, keyHead, j, j);
    for (const OperandRows &value : values)
      loadMapped(r, value, batch, keyHead, j, j);
  });
  Index group = k.div(r.arguments.getSize(t.query, 1),
                      k.max(r.arguments.getSize(t.key, 1), 1));
  Index first = k.mul(keyHead, group);
  ContextualRow &contextual = r.point.contextual;
  k.nest({{first, k.add(first, group)}, {0, r.arguments.getSize(t.query, 2)}},
         [&](ValueRange at) {
           Index head = at[0], i = at[1];
           loadMapped(r, query, batch, head, i, 0);
           runQuery(head, i);
           storePulled(r, query, t.queryGradient, {batch, head, i}, 0,
                       &contextual.gradient);
         });
  k.loop(0, keys, 1, [&](Value j) {
    storePulled(r, key, t.keyGradient, {batch, keyHead, j}, j,
                contextual.keyGradients.base ? &contextual.keyGradients
                                             : nullptr);
    for (auto [value, gradient] : llvm::zip(values, t.valueGradients))
      storePulled(r, value, gradient, {batch, keyHead, j}, j);
  });
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
codegen::lowerReferenceBackward(const Lowering &lowering) {
  const KernelPlan &plan = lowering.plan;
  if (failed(verifyAllHeads(plan)))
    return failure();
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results =
      addBackwardTensors(lowering, operands, layout, t);

  auto units = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    Index batches = arguments.getSize(t.key, 0);
    return plan.scoreHeads ? batches
                           : k.mul(batches, arguments.getSize(t.key, 1));
  };
  auto elements = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    if (plan.scoreHeads)
      return countAllHeads(k, arguments, t, plan, /*isBackward=*/true);
    // Rows and gradients of keys and values; of one query four rows, of keys
    // two more and of values three more.
    Index keys = arguments.getSize(t.key, 2), rows = k.mul(keys, 2);
    Index total = k.mul(arguments.getSize(t.query, 3), 4);
    total = k.add(total, k.mul(arguments.getSize(t.key, 3), k.add(rows, 2)));
    if (plan.readsRows(pos::Side::key))
      total = k.add(total, k.mul(arguments.getSize(t.key, 3), keys));
    // Columns of a query and of the keys, and their gradients.
    total = k.add(total, k.mul(k.add(rows, 2), plan.countColumns()));
    for (unsigned value : t.values)
      total = k.add(total, k.mul(arguments.getSize(value, 3), k.add(rows, 3)));
    total = k.add(total, countContextual(k, plan, arguments.getSize(t.query, 3),
                                         arguments.getSize(t.key, 2)));
    return total;
  };
  auto run = [&](ReferenceBuilder &r, Index number) {
    if (plan.scoreHeads)
      return runAllHeads(r, t, number, /*isBackward=*/true);
    Index heads = r.arguments.getSize(t.key, 1);
    HeadGroup(r, t, r.k.div(number, heads), r.k.rem(number, heads)).run();
  };
  ReferenceLaunch launch{lowering, operands, layout};
  if (failed(launch.create("backward", units, elements, run)))
    return failure();
  return results;
}
