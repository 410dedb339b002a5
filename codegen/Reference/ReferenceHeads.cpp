//===- ReferenceHeads.cpp - Attention with a score of all heads -----------===//
//
// As attention of one head, with all heads of a (query, key) at once: an item
// is an element of the batch, scratch is O(H Lk).
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/ReferenceHeads.h"
#include "codegen/Reference/ReferenceVectors.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

namespace {
/// All rows of an operand in mapped form, and room for their gradient. Row `i`
/// of head `h` is row h * length + i.
struct HeadRows {
  RowOperand operand;
  unsigned tensor;
  ArrayRef<RowMap> maps;
  Index heads, length;
  Matrix rows, gradient = {};

  Index at(KernelBuilder &k, Index head, Index row) const {
    return k.add(k.mul(head, length), row);
  }
};

/// One element of the batch.
class AllHeads {
public:
  AllHeads(ReferenceKernel &r, const AttentionTensors &t, Index batch)
      : r(r), k(r.k), plan(r.point.getPlan()), t(t), batch(batch),
        heads(plan.scoreHeads), queries(r.arguments.getSize(t.query, 2)),
        keys(r.arguments.getSize(t.key, 2)),
        keyHeads(r.arguments.getSize(t.key, 1)),
        group(k.div(heads, k.max(keyHeads, 1))),
        hidden(r.constant(-std::numeric_limits<double>::infinity())) {}

  void runForward();
  void runBackward();

private:
  HeadRows loadAll(RowOperand operand, unsigned tensor, ArrayRef<RowMap> maps,
                   bool wantsGradient);
  void storeAll(HeadRows &mapped, unsigned gradientTensor);
  Value isVisibleToAny(Value i, Value j);
  void scoreAll(VectorPayload &payload, const HeadRows &query,
                const HeadRows &key, Value i, Value j, const Matrix &scores,
                Index column);
  void finishRow(Value head, Value i, const Matrix &scores,
                 ArrayRef<HeadRows> values, ArrayRef<Matrix> outputs);
  Value pullHead(Value head, Value i, Value j, Value score, const Matrix &delta,
                 ArrayRef<Matrix> seeds, ArrayRef<HeadRows> values);
  void loadRowFacts(Value head, Value i, const Matrix &delta,
                    ArrayRef<Matrix> seeds);

  ReferenceKernel &r;
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
                           ArrayRef<RowMap> maps, bool wantsGradient) {
  HeadRows mapped{operand,
                  tensor,
                  maps,
                  r.arguments.getSize(tensor, 1),
                  r.arguments.getSize(tensor, 2),
                  {}};
  Index count = k.mul(mapped.heads, mapped.length);
  Index width = r.getRowWidth(operand, tensor);
  mapped.rows = r.allocate(count, width);
  if (wantsGradient) {
    mapped.gradient = r.allocate(count, width);
    r.clear(mapped.gradient, count);
  }
  k.loop(0, mapped.heads, 1, [&](Value head) {
    k.loop(0, mapped.length, 1, [&](Value row) {
      Index at = mapped.at(k, head, row);
      r.point.moveToRow(operand, batch, head, row);
      r.loadRow(tensor, {batch, head, row}, mapped.rows, at);
      r.mapRow(maps, mapped.rows, at);
      r.appendColumns(operand, mapped.rows, at);
    });
  });
  return mapped;
}

/// Pulls gradients of mapped rows back through the maps and stores them.
void AllHeads::storeAll(HeadRows &mapped, unsigned gradientTensor) {
  Index width = r.arguments.getSize(mapped.tensor, 3);
  Matrix original = r.allocate(1, width), work = r.allocate(1, width);
  k.loop(0, mapped.heads, 1, [&](Value head) {
    k.loop(0, mapped.length, 1, [&](Value row) {
      Index at = mapped.at(k, head, row);
      r.point.moveToRow(mapped.operand, batch, head, row);
      r.pullColumns(mapped.operand, mapped.gradient, at);
      r.loadRow(mapped.tensor, {batch, head, row}, original, 0);
      r.pullRow(mapped.maps, mapped.gradient, at, original, work);
      r.storeRow(gradientTensor, {batch, head, row}, mapped.gradient, at);
    });
  });
}

/// Whether some head sees the key; null: all do.
Value AllHeads::isVisibleToAny(Value i, Value j) {
  if (!plan.mask)
    return {};
  Value nobody = k.constant(k.builder.getBoolAttr(false));
  return k
      .loop(0, heads, 1, {nobody},
            [&](Value head, ValueRange now) -> KernelBuilder::Values {
              r.point.moveToPair(batch, head, i, j);
              return {arith::OrIOp::create(k.builder, k.loc, now[0],
                                           r.isVisible())};
            })
      .front();
}

/// Final scores of all heads at (i, j), to column `column` of one row per head.
void AllHeads::scoreAll(VectorPayload &payload, const HeadRows &query,
                        const HeadRows &key, Value i, Value j,
                        const Matrix &scores, Index column) {
  k.loop(0, heads, 1, [&](Value head) {
    Value product = r.dot(query.rows, query.at(k, head, i), key.rows,
                          key.at(k, k.div(head, group), j));
    r.store(payload.getArgument(), 0, head,
            r.mul(product, r.constant(plan.scale)));
  });
  if (r.point.log)
    r.point.counts = isVisibleToAny(i, j);
  r.point.moveToPair(batch, 0, i, j);
  r.point.setHead(Value());
  if (failed(payload.emit()))
    r.point.failed = true;
  r.point.counts = {};
  k.loop(0, heads, 1, [&](Value head) {
    r.point.moveToPair(batch, head, i, j);
    Value score = r.load(payload.getResult(), 0, head);
    r.store(scores, head, column, r.hide(score, r.isVisible()));
  });
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void AllHeads::finishRow(Value head, Value i, const Matrix &scores,
                         ArrayRef<HeadRows> values, ArrayRef<Matrix> outputs) {
  Value zero = r.constant(0.0);
  Value largest =
      k.loop(0, keys, 1, {hidden},
             [&](Value j, ValueRange now) -> KernelBuilder::Values {
               return {arith::MaximumFOp::create(k.builder, k.loc, now[0],
                                                 r.load(scores, head, j))};
             })
          .front();
  // Without a visible key every weight is 0 (C4).
  Value isEmpty = k.compareF(arith::CmpFPredicate::OEQ, largest, hidden);
  Value shift = k.selectF(isEmpty, zero, largest);
  for (const Matrix &row : outputs)
    r.clear(row, 1);
  Value sum =
      k.loop(
           0, keys, 1, {zero},
           [&](Value j, ValueRange now) -> KernelBuilder::Values {
             Value score = r.load(scores, head, j);
             Value weight =
                 math::ExpOp::create(k.builder, k.loc, r.sub(score, shift));
             Value seen = k.compareF(arith::CmpFPredicate::UNE, score, hidden);
             k.when(seen, [&] {
               for (auto [row, value] : llvm::zip(outputs, values)) {
                 Index at = value.at(k, k.div(head, group), j);
                 k.loop(0, row.width, 1, [&](Value c) {
                   r.addTo(row, 0, c, r.mul(weight, r.load(value.rows, at, c)));
                 });
               }
             });
             return {r.add(now[0], weight)};
           })
          .front();
  for (auto [row, tensor] : llvm::zip(outputs, t.outputs))
    k.loop(0, row.width, 1, [&](Value c) {
      Value quotient =
          arith::DivFOp::create(k.builder, k.loc, r.load(row, 0, c), sum);
      r.storeElement(tensor, {batch, head, i, c},
                     k.selectF(isEmpty, zero, quotient));
    });
  r.storeStatistics(t, batch, head, i, largest, sum);
  Value logSum = math::LogOp::create(k.builder, k.loc, sum);
  r.storeElement(t.lse, {batch, head, i}, r.add(largest, logSum));
}

void AllHeads::runForward() {
  HeadRows query = loadAll(RowOperand::query, t.query, plan.queryRows, false);
  HeadRows key = loadAll(RowOperand::key, t.key, plan.keyRows, false);
  SmallVector<HeadRows> values;
  SmallVector<Matrix> outputs;
  for (unsigned value : t.values) {
    values.push_back(loadAll(RowOperand::value, value, plan.valueRows, false));
    outputs.push_back(r.allocate(1, values.back().rows.width));
  }
  Matrix scores = r.allocate(heads, keys);
  pos::ScoreOp site = plan.score;
  VectorPayload payload(r, site.getPayload());
  k.loop(0, queries, 1, [&](Value i) {
    k.loop(0, keys, 1,
           [&](Value j) { scoreAll(payload, query, key, i, j, scores, j); });
    k.loop(0, heads, 1,
           [&](Value head) { finishRow(head, i, scores, values, outputs); });
  });
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// sum(do * o) - dlse of a row, and the gradients of its outputs.
void AllHeads::loadRowFacts(Value head, Value i, const Matrix &delta,
                            ArrayRef<Matrix> seeds) {
  Value sum =
      r.sub(r.constant(0.0), r.loadElement(t.lseGradient, {batch, head, i}));
  for (auto [seed, tensor, gradient] :
       llvm::zip(seeds, t.outputs, t.outputGradients)) {
    r.loadRow(gradient, {batch, head, i}, seed, head);
    sum = k.loop(0, seed.width, 1, {sum},
                 [&](Value c, ValueRange now) -> KernelBuilder::Values {
                   Value output = r.loadElement(tensor, {batch, head, i, c});
                   return {r.add(now[0], r.mul(r.load(seed, head, c), output))};
                 })
              .front();
  }
  r.store(delta, head, 0, sum);
}

/// The cotangent of a visible score; adds to the gradients of the values.
Value AllHeads::pullHead(Value head, Value i, Value j, Value score,
                         const Matrix &delta, ArrayRef<Matrix> seeds,
                         ArrayRef<HeadRows> values) {
  Value shift = r.loadElement(*t.statistics, {batch, head, i, 0});
  Value weight = arith::DivFOp::create(
      k.builder, k.loc,
      math::ExpOp::create(k.builder, k.loc, r.sub(score, shift)),
      r.loadElement(*t.statistics, {batch, head, i, 1}));
  Value slope = r.sub(r.constant(0.0), r.load(delta, head, 0));
  for (auto [value, seed] : llvm::zip(values, seeds)) {
    Index at = value.at(k, k.div(head, group), j);
    slope = r.add(slope, r.dot(seed, head, value.rows, at));
    k.loop(0, seed.width, 1, [&](Value c) {
      r.addTo(value.gradient, at, c, r.mul(weight, r.load(seed, head, c)));
    });
  }
  return r.mul(weight, slope);
}

void AllHeads::runBackward() {
  HeadRows query = loadAll(RowOperand::query, t.query, plan.queryRows, true);
  HeadRows key = loadAll(RowOperand::key, t.key, plan.keyRows, true);
  SmallVector<HeadRows> values;
  SmallVector<Matrix> seeds;
  for (unsigned value : t.values) {
    values.push_back(loadAll(RowOperand::value, value, plan.valueRows, true));
    seeds.push_back(r.allocate(heads, values.back().rows.width));
  }
  Matrix delta = r.allocate(heads, 1);
  Matrix scores = r.allocate(heads, 1);
  pos::ScoreOp site = plan.score;
  VectorPayload payload(r, site.getPayload());
  Value nobody = k.constant(k.builder.getBoolAttr(false));
  k.loop(0, queries, 1, [&](Value i) {
    k.loop(0, heads, 1,
           [&](Value head) { loadRowFacts(head, i, delta, seeds); });
    k.loop(0, keys, 1, [&](Value j) {
      scoreAll(payload, query, key, i, j, scores, 0);
      Value anySeen =
          k.loop(0, heads, 1, {nobody},
                 [&](Value head, ValueRange now) -> KernelBuilder::Values {
                   Value score = r.load(scores, head, 0);
                   Value seen =
                       k.compareF(arith::CmpFPredicate::UNE, score, hidden);
                   r.store(payload.getResultCotangent(), 0, head,
                           r.constant(0.0));
                   k.when(seen, [&] {
                     r.store(payload.getResultCotangent(), 0, head,
                             pullHead(head, i, j, score, delta, seeds, values));
                   });
                   return {
                       arith::OrIOp::create(k.builder, k.loc, now[0], seen)};
                 })
              .front();
      // A score that one head hides moves those of other heads.
      k.when(anySeen, [&] {
        r.point.moveToPair(batch, 0, i, j);
        r.point.setHead(Value());
        if (failed(payload.pull()))
          r.point.failed = true;
        k.loop(0, heads, 1, [&](Value head) {
          Value product = r.mul(r.load(payload.getArgumentCotangent(), 0, head),
                                r.constant(plan.scale));
          Index q = query.at(k, head, i), c = key.at(k, k.div(head, group), j);
          k.loop(0, query.rows.width, 1, [&](Value lane) {
            r.addTo(query.gradient, q, lane,
                    r.mul(product, r.load(key.rows, c, lane)));
            r.addTo(key.gradient, c, lane,
                    r.mul(product, r.load(query.rows, q, lane)));
          });
        });
      });
    });
  });
  storeAll(query, t.queryGradient);
  storeAll(key, t.keyGradient);
  for (auto [value, gradient] : llvm::zip(values, t.valueGradients))
    storeAll(value, gradient);
}

void codegen::runAllHeads(ReferenceKernel &r, const AttentionTensors &tensors,
                          Index batch, bool isBackward) {
  AllHeads item(r, tensors, batch);
  if (isBackward)
    item.runBackward();
  else
    item.runForward();
}
