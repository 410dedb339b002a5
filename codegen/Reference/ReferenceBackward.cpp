//===- ReferenceBackward.cpp - Gradient of attention by its definition ----===//
//
// With p = exp(s - shift) / sum and delta = sum(do * o) - dlse, the gradient of
// the final score is p (do . v - delta); the payload's pullback turns it into
// that of the scaled product and of parameters.
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceHeads.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

namespace {
/// One operand of one head: mapped rows and the gradient of these.
struct MappedRows {
  RowOperand operand;
  unsigned tensor, gradientTensor;
  ArrayRef<RowMap> maps;
  Matrix rows, gradient, original, work;
};
} // namespace

/// Room for `rowsInUse` rows of an operand.
static MappedRows allocateRows(ReferenceKernel &r, RowOperand operand,
                               unsigned tensor, unsigned gradientTensor,
                               ArrayRef<RowMap> maps, Index rowsInUse) {
  Index width = r.arguments.getSize(tensor, 3);
  Index wide = r.getRowWidth(operand, tensor);
  MappedRows mapped{operand, tensor, gradientTensor, maps, {}, {}, {}, {}};
  mapped.rows = r.allocate(rowsInUse, wide);
  mapped.gradient = r.allocate(rowsInUse, wide);
  mapped.original = r.allocate(1, width);
  mapped.work = r.allocate(1, width);
  return mapped;
}

/// Loads row `row` of a head to row `to` of the matrices, and clears its
/// gradient.
static void loadMapped(ReferenceKernel &r, MappedRows &mapped, Index batch,
                       Index head, Index row, Index to) {
  r.point.moveToRow(mapped.operand, batch, head, row);
  r.loadRow(mapped.tensor, {batch, head, row}, mapped.rows, to);
  r.mapRow(mapped.maps, mapped.rows, to);
  r.appendColumns(mapped.operand, mapped.rows, to);
  r.k.loop(0, mapped.rows.width, 1, [&](Value column) {
    r.store(mapped.gradient, to, column, r.constant(0.0));
  });
}

/// Pulls the gradient of a row back through its maps and stores it, with what
/// came to the row past its maps.
static void storeGradient(ReferenceKernel &r, MappedRows &mapped, Index batch,
                          Index head, Index row, Index from,
                          const Matrix *unmapped = nullptr) {
  r.point.moveToRow(mapped.operand, batch, head, row);
  r.pullColumns(mapped.operand, mapped.gradient, from);
  r.loadRow(mapped.tensor, {batch, head, row}, mapped.original, 0);
  r.pullRow(mapped.maps, mapped.gradient, from, mapped.original, mapped.work);
  if (unmapped)
    r.k.loop(0, unmapped->width, 1, [&](Value column) {
      r.addTo(mapped.gradient, from, column, r.load(*unmapped, from, column));
    });
  r.storeRow(mapped.gradientTensor, {batch, head, row}, mapped.gradient, from);
}

/// target[row] += factor * source[from].
static void addRow(ReferenceKernel &r, const Matrix &target, Index row,
                   Value factor, const Matrix &source, Index from) {
  r.k.loop(0, target.width, 1, [&](Value column) {
    r.addTo(target, row, column, r.mul(factor, r.load(source, from, column)));
  });
}

/// The cotangent of the scaled product from that of the final score.
static Value pullScore(ReferenceKernel &r, Value raw, Value cotangent) {
  pos::ScoreOp site = r.point.getPlan().score;
  if (!site)
    return cotangent;
  FailureOr<SmallVector<Value>> pulled = emitPullback(
      r.k.builder, site.getBody().front(), {raw}, {cotangent}, r.point);
  if (failed(pulled)) {
    r.point.failed = true;
    return cotangent;
  }
  return pulled->front() ? pulled->front() : r.constant(0.0);
}

/// The gradient of the row term is that of the row's log-sum-exp.
static void pullRowTerm(ReferenceKernel &r, const AttentionTensors &t,
                        Index batch, Index head, Index i, Value sum) {
  pos::RowTermOp site = r.point.getPlan().rowTerm;
  if (!site || !r.point.wantsGradient(site.getHoist()))
    return;
  // A row that sees no key has a log-sum-exp whatever its term is (C4).
  Value seesKeys =
      r.k.compareF(arith::CmpFPredicate::UNE, sum, r.constant(0.0));
  Value cotangent =
      r.k.selectF(seesKeys, r.loadElement(t.lseGradient, {batch, head, i}),
                  r.constant(0.0));
  r.point.moveToPair(batch, head, i, 0);
  r.point.addToHoisted(r.k.builder, site.getHoist(), cotangent);
}

/// One query row against all keys.
static void runQuery(ReferenceKernel &r, const AttentionTensors &t, Index batch,
                     Index head, Index i, MappedRows &query, MappedRows &key,
                     MutableArrayRef<MappedRows> values,
                     ArrayRef<Matrix> seeds) {
  KernelBuilder &k = r.k;
  Value hidden = r.constant(-std::numeric_limits<double>::infinity());
  Value scale = r.constant(r.point.getPlan().scale);
  Value delta =
      r.sub(r.constant(0.0), r.loadElement(t.lseGradient, {batch, head, i}));
  for (auto [seed, tensor, gradient] :
       llvm::zip(seeds, t.outputs, t.outputGradients)) {
    r.loadRow(gradient, {batch, head, i}, seed, 0);
    delta = k.loop(0, seed.width, 1, {delta},
                   [&](Value c, ValueRange sum) -> KernelBuilder::Values {
                     Value output = r.loadElement(tensor, {batch, head, i, c});
                     return {r.add(sum[0], r.mul(r.load(seed, 0, c), output))};
                   })
                .front();
  }
  Value shift = r.loadElement(*t.statistics, {batch, head, i, 0});
  Value sum = r.loadElement(*t.statistics, {batch, head, i, 1});
  pullRowTerm(r, t, batch, head, i, sum);
  const KernelPlan &plan = r.point.getPlan();
  Index keys = r.arguments.getSize(t.key, 2);
  auto emitScore = [&](Index j, Value raw) {
    r.point.moveToPair(batch, head, i, j);
    return r.finalScore(raw);
  };
  auto emitRaw = [&](Index j) {
    return r.mul(r.dot(query.rows, 0, key.rows, j), scale);
  };
  ContextualRow &contextual = r.point.contextual;
  r.loadRow(t.query, {batch, head, i}, contextual.query, 0);
  r.clear(contextual.gradient, 1);
  if (!plan.scans.empty()) { // the running sums
    contextual.replays = false;
    r.clear(contextual.carry, plan.scans.size());
    k.loop(0, keys, 1, [&](Value step) {
      Index j = r.toKey(step, keys);
      emitScore(j, emitRaw(j));
    });
    contextual.replays = true;
    r.clear(contextual.carry, plan.scans.size());
  }
  k.loop(0, keys, 1, [&](Value step) {
    Index j = r.toKey(step, keys);
    Value raw = emitRaw(j);
    Value score = emitScore(j, raw);
    k.when(k.compareF(arith::CmpFPredicate::UNE, score, hidden), [&] {
      Value weight = arith::DivFOp::create(
          k.builder, k.loc,
          math::ExpOp::create(k.builder, k.loc, r.sub(score, shift)), sum);
      Value slope = r.sub(r.constant(0.0), delta);
      for (auto [value, seed] : llvm::zip(values, seeds)) {
        slope = r.add(slope, r.dot(seed, 0, value.rows, j));
        addRow(r, value.gradient, j, weight, seed, 0);
      }
      for (pos::WeightedRowsOp op : plan.weightedRows) {
        slope = r.add(slope, r.dotWeighted(op, seeds.front()));
        r.addToWeighted(op, seeds.front(), weight);
      }
      Value product = r.mul(pullScore(r, raw, r.mul(weight, slope)), scale);
      addRow(r, query.gradient, 0, product, key.rows, j);
      addRow(r, key.gradient, j, product, query.rows, 0);
    });
  });
}

/// All query heads that share a head of keys.
static void runGroup(ReferenceKernel &r, const AttentionTensors &t, Index batch,
                     Index keyHead) {
  KernelBuilder &k = r.k;
  const KernelPlan &plan = r.point.getPlan();
  Index keys = r.arguments.getSize(t.key, 2);
  Index group = k.div(r.arguments.getSize(t.query, 1),
                      k.max(r.arguments.getSize(t.key, 1), 1));
  MappedRows query = allocateRows(r, RowOperand::query, t.query,
                                  t.queryGradient, plan.queryRows, 1);
  MappedRows key = allocateRows(r, RowOperand::key, t.key, t.keyGradient,
                                plan.keyRows, keys);
  SmallVector<MappedRows> values;
  SmallVector<Matrix> seeds;
  for (auto [value, gradient] : llvm::zip(t.values, t.valueGradients)) {
    values.push_back(allocateRows(r, RowOperand::value, value, gradient,
                                  plan.valueRows, keys));
    seeds.push_back(r.allocate(1, r.arguments.getSize(value, 3)));
  }
  r.point.rows = &r;
  ContextualRow &contextual = r.point.contextual;
  contextual = r.allocateContextual(r.arguments.getSize(t.query, 3), keys);
  contextual.key = t.key;
  contextual.keyHead = keyHead;
  const Matrix *keysUnmapped = nullptr;
  if (plan.readsRows(pos::Side::key)) {
    contextual.keyGradients = r.allocate(keys, contextual.query.width);
    r.clear(contextual.keyGradients, keys);
    keysUnmapped = &contextual.keyGradients;
  }
  k.loop(0, keys, 1, [&](Value j) {
    loadMapped(r, key, batch, keyHead, j, j);
    for (MappedRows &value : values)
      loadMapped(r, value, batch, keyHead, j, j);
  });
  Index first = k.mul(keyHead, group);
  k.loop(first, k.add(first, group), 1, [&](Value head) {
    k.loop(0, r.arguments.getSize(t.query, 2), 1, [&](Value i) {
      loadMapped(r, query, batch, head, i, 0);
      runQuery(r, t, batch, head, i, query, key, values, seeds);
      storeGradient(r, query, batch, head, i, 0, &contextual.gradient);
    });
  });
  k.loop(0, keys, 1, [&](Value j) {
    storeGradient(r, key, batch, keyHead, j, j, keysUnmapped);
    for (MappedRows &value : values)
      storeGradient(r, value, batch, keyHead, j, j);
  });
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceBackward(const Lowering &lowering) {
  if (lowering.plan.scoreHeads)
    return lowerReferenceAllHeadsBackward(lowering);
  FloatType type =
      getReferenceType(getOwnerOperands(lowering.plan.owner).query);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results =
      addBackwardTensors(lowering, operands, layout, t);

  // Gradients of parameters are sums over all heads: one item, in order.
  bool oneItem = !layout.paramGradients.empty();
  auto groups = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(t.key, 0), arguments.getSize(t.key, 1));
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {oneItem ? Index(1) : groups(k, arguments)});
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    // Rows and gradients of keys and values; of one query four rows, of keys
    // two more and of values three more.
    Index keys = arguments.getSize(t.key, 2), rows = k.mul(keys, 2);
    Index total = k.mul(arguments.getSize(t.query, 3), 4);
    total = k.add(total, k.mul(arguments.getSize(t.key, 3), k.add(rows, 2)));
    if (lowering.plan.readsRows(pos::Side::key))
      total = k.add(total, k.mul(arguments.getSize(t.key, 3), keys));
    // Columns of a query and of the keys, and their gradients.
    total = k.add(total, k.mul(k.add(rows, 2), lowering.plan.countColumns()));
    for (unsigned value : t.values)
      total = k.add(total, k.mul(arguments.getSize(value, 3), k.add(rows, 3)));
    total = k.add(total, countContextual(k, lowering.plan,
                                         arguments.getSize(t.query, 3),
                                         arguments.getSize(t.key, 2)));
    return getScratchBytes(k, type, total);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    auto runItem = [&](Value number) {
      ReferenceKernel r(k, arguments, point, memory);
      Index heads = arguments.getSize(t.key, 1);
      runGroup(r, t, k.div(number, heads), k.rem(number, heads));
    };
    if (oneItem)
      k.loop(items.begin, items.end, 1,
             [&](Value) { k.loop(0, groups(k, arguments), 1, runItem); });
    else
      k.loop(items.begin, items.end, 1, runItem);
    k.check(failure(point.failed));
  };
  operands.launch(lowering, "backward", {items, scratch, run});
  if (mlir::failed(lowering.status))
    return failure();
  return results;
}
