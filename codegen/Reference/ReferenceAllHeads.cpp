//===- ReferenceAllHeads.cpp - Attention with a score of all heads --------===//
//
// As attention of one head, with all heads of a (query, key) at once: an item
// is an element of the batch, scratch is O(H Lk).
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/ReferenceAllHeads.h"
#include "codegen/Reference/ReferenceVectors.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

namespace {
/// All rows of an operand. Row `i` of head `h` is row h * length + i.
struct HeadRows {
  Index heads, length;
  OperandRows of;

  Index at(KernelBuilder &k, Index head, Index row) const {
    return k.add(k.mul(head, length), row);
  }
};

/// One element of the batch.
class AllHeads {
public:
  AllHeads(ReferenceBuilder &r, const AttentionTensors &t, Index batch)
      : r(r), k(r.k), plan(r.point.getPlan()), t(t), batch(batch),
        heads(plan.scoreHeads), queries(r.arguments.getSize(t.query, 2)),
        keys(r.arguments.getSize(t.key, 2)),
        keyHeads(r.arguments.getSize(t.key, 1)),
        group(k.div(heads, k.max(keyHeads, 1))),
        hidden(r.constant(-std::numeric_limits<double>::infinity())) {}

  void runForward();
  void runBackward();

private:
  HeadRows loadAll(RowOperand operand, unsigned tensor, bool wantsGradient);
  void storeAll(const HeadRows &rows, unsigned gradientTensor);
  Value isVisibleToAny(Value i, Value j);
  void scoreAll(VectorPayload &payload, const HeadRows &query,
                const HeadRows &key, Value i, Value j, const Matrix &scores,
                Index column);
  Value pullHead(Value head, Value i, Value j, Value score, Value delta,
                 ArrayRef<Matrix> seeds, ArrayRef<HeadRows> values);

  ReferenceBuilder &r;
  KernelBuilder &k;
  const KernelPlan &plan;
  const AttentionTensors &t;
  Index batch, heads, queries, keys, keyHeads, group;
  Value hidden;
};
} // namespace

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

HeadRows AllHeads::loadAll(RowOperand operand, unsigned tensor,
                           bool wantsGradient) {
  Index count = r.arguments.getSize(tensor, 1);
  Index length = r.arguments.getSize(tensor, 2);
  HeadRows rows{
      count, length,
      allocateRows(r, operand, tensor, k.mul(count, length), wantsGradient)};
  k.nest({{0, count}, {0, length}}, [&](ValueRange at) {
    loadMapped(r, rows.of, batch, at[0], at[1], rows.at(k, at[0], at[1]));
  });
  return rows;
}

/// Pulls gradients of mapped rows back through the maps and stores them.
void AllHeads::storeAll(const HeadRows &rows, unsigned gradientTensor) {
  k.nest({{0, rows.heads}, {0, rows.length}}, [&](ValueRange at) {
    storePulled(r, rows.of, gradientTensor, {batch, at[0], at[1]},
                rows.at(k, at[0], at[1]));
  });
}

/// Whether some head sees the key; null: all do.
Value AllHeads::isVisibleToAny(Value i, Value j) {
  if (!plan.mask)
    return {};
  return r.fold(heads, k.constantI1(false), [&](Value head, Value now) {
    r.point.moveToPair(batch, head, i, j);
    return k.either(now, isVisible(r));
  });
}

/// Final scores of all heads at (i, j), to column `column` of one row per head.
void AllHeads::scoreAll(VectorPayload &payload, const HeadRows &query,
                        const HeadRows &key, Value i, Value j,
                        const Matrix &scores, Index column) {
  k.loop(0, heads, 1, [&](Value head) {
    Value product = r.dot(query.of.rows, query.at(k, head, i), key.of.rows,
                          key.at(k, k.div(head, group), j));
    r.store(payload.getArgument(), 0, head,
            r.mul(product, r.constant(plan.scale)));
  });
  if (r.point.log)
    r.point.counts = isVisibleToAny(i, j);
  r.point.moveToPair(batch, 0, i, j);
  r.point.setHead(Value());
  payload.emit();
  r.point.counts = {};
  k.loop(0, heads, 1, [&](Value head) {
    r.point.moveToPair(batch, head, i, j);
    Value score = r.load(payload.getResult(), 0, head);
    r.store(scores, head, column, hide(r, score, isVisible(r)));
  });
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void AllHeads::runForward() {
  HeadRows query = loadAll(RowOperand::query, t.query, false);
  HeadRows key = loadAll(RowOperand::key, t.key, false);
  SmallVector<OperandRows> values;
  SmallVector<Matrix> outputs;
  for (unsigned value : t.values) {
    values.push_back(loadAll(RowOperand::value, value, false).of);
    outputs.push_back(r.allocate(1, values.back().rows.width));
  }
  Matrix scores = r.allocate(heads, keys);
  pos::ScoreOp site = plan.score;
  VectorPayload payload(r, site.getPayload());
  k.loop(0, queries, 1, [&](Value i) {
    k.loop(0, keys, 1,
           [&](Value j) { scoreAll(payload, query, key, i, j, scores, j); });
    k.loop(0, heads, 1, [&](Value head) {
      Value largest = r.fold(keys, hidden, [&](Value j, Value now) -> Value {
        return arith::MaximumFOp::create(k.builder, k.loc, now,
                                         r.load(scores, head, j));
      });
      ScoreRow row{batch,
                   head,
                   i,
                   scores,
                   head,
                   values,
                   k.mul(k.div(head, group), keys),
                   outputs};
      Value lse = emitSoftmax(r, t, row, largest).second;
      r.storeElement(t.lse, {batch, head, i}, lse);
    });
  });
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The cotangent of a visible score; adds to the gradients of the values.
Value AllHeads::pullHead(Value head, Value i, Value j, Value score, Value delta,
                         ArrayRef<Matrix> seeds, ArrayRef<HeadRows> values) {
  Value weight = emitWeight(r, t, batch, head, i, score);
  Value slope = r.sub(r.constant(0.0), delta);
  for (auto [value, seed] : llvm::zip(values, seeds)) {
    Index at = value.at(k, k.div(head, group), j);
    slope = r.add(slope, r.dot(seed, head, value.of.rows, at));
    r.addRow(value.of.gradient, at, weight, seed, head);
  }
  return r.mul(weight, slope);
}

void AllHeads::runBackward() {
  HeadRows query = loadAll(RowOperand::query, t.query, true);
  HeadRows key = loadAll(RowOperand::key, t.key, true);
  SmallVector<HeadRows> values;
  SmallVector<Matrix> seeds;
  for (unsigned value : t.values) {
    values.push_back(loadAll(RowOperand::value, value, true));
    seeds.push_back(r.allocate(heads, values.back().of.rows.width));
  }
  Matrix delta = r.allocate(heads, 1);
  Matrix scores = r.allocate(heads, 1);
  pos::ScoreOp site = plan.score;
  VectorPayload payload(r, site.getPayload());
  k.loop(0, queries, 1, [&](Value i) {
    k.loop(0, heads, 1, [&](Value head) {
      r.store(delta, head, 0, loadDelta(r, t, batch, head, i, seeds, head));
    });
    k.loop(0, keys, 1, [&](Value j) {
      scoreAll(payload, query, key, i, j, scores, 0);
      auto pull = [&](Value head, Value anySeen) -> Value {
        Value score = r.load(scores, head, 0);
        Value seen = k.compareF(arith::CmpFPredicate::UNE, score, hidden);
        const Matrix &cotangents = payload.getResultCotangent();
        r.store(cotangents, 0, head, r.constant(0.0));
        k.when(seen, [&] {
          r.store(cotangents, 0, head,
                  pullHead(head, i, j, score, r.load(delta, head, 0), seeds,
                           values));
        });
        return k.either(anySeen, seen);
      };
      Value anySeen = r.fold(heads, k.constantI1(false), pull);
      // A score that one head hides moves those of other heads.
      k.when(anySeen, [&] {
        r.point.moveToPair(batch, 0, i, j);
        r.point.setHead(Value());
        payload.pull();
        k.loop(0, heads, 1, [&](Value head) {
          Value product = r.mul(r.load(payload.getArgumentCotangent(), 0, head),
                                r.constant(plan.scale));
          Index q = query.at(k, head, i), c = key.at(k, k.div(head, group), j);
          r.addRow(query.of.gradient, q, product, key.of.rows, c);
          r.addRow(key.of.gradient, c, product, query.of.rows, q);
        });
      });
    });
  });
  storeAll(query, t.queryGradient);
  storeAll(key, t.keyGradient);
  for (auto [value, gradient] : llvm::zip(values, t.valueGradients))
    storeAll(value, gradient);
}

void codegen::runAllHeads(ReferenceBuilder &r, const AttentionTensors &tensors,
                          Index batch, bool isBackward) {
  AllHeads item(r, tensors, batch);
  if (isBackward)
    item.runBackward();
  else
    item.runForward();
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

LogicalResult codegen::verifyAllHeads(const KernelPlan &plan) {
  if (pos::RowTermOp term = plan.rowTerm; term && plan.scoreHeads)
    return term.emitOpError("has no kernel beside a score of all heads");
  return success();
}

Index codegen::countAllHeads(KernelBuilder &k, ArgumentBlock &arguments,
                             const AttentionTensors &t, const KernelPlan &plan,
                             bool isBackward) {
  auto rows = [&](unsigned tensor) {
    return k.mul(arguments.getSize(tensor, 1), arguments.getSize(tensor, 2));
  };
  int64_t copies = isBackward ? 2 : 1;
  auto operand = [&](unsigned tensor) {
    // Two rows of work in a backward.
    return k.mul(arguments.getSize(tensor, 3),
                 k.add(k.mul(rows(tensor), copies), 2));
  };
  Index total = k.add(operand(t.query), operand(t.key));
  total = k.add(total, k.mul(k.add(rows(t.query), rows(t.key)),
                             copies * plan.countColumns()));
  for (unsigned value : t.values) {
    total = k.add(total, operand(value));
    total = k.add(total, k.mul(arguments.getSize(value, 3), plan.scoreHeads));
  }
  total = k.add(total,
                k.mul(k.add(arguments.getSize(t.key, 2), 3), plan.scoreHeads));
  pos::ScoreOp score = plan.score;
  return k.add(total, VectorPayload::countElements(score.getPayload()));
}
