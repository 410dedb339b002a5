//===- ReferenceScore.cpp - The score of a pair and its row ---------------===//

#include "codegen/Reference/ReferenceScore.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Contextual ops
//===----------------------------------------------------------------------===//

ContextualRow codegen::allocateContextual(ReferenceBuilder &r, Index width,
                                          Index keys) {
  size_t scans = r.point.getPlan().scans.size();
  ContextualRow row;
  row.query = r.allocate(1, width);
  row.gradient = r.allocate(1, width);
  row.sums = r.allocate(scans, keys);
  row.carry = r.allocate(scans, 1);
  return row;
}

Index codegen::countContextual(KernelBuilder &kernel, const KernelPlan &plan,
                               Index width, Index keys) {
  return kernel.add(kernel.mul(width, 2),
                    kernel.mul(kernel.add(keys, 1), plan.scans.size()));
}

Index codegen::toKey(ReferenceBuilder &r, Index step, Index keys) {
  const KernelPlan &plan = r.point.getPlan();
  if (plan.scans.empty() || plan.isLeftward() == r.point.contextual.replays)
    return step;
  return r.k.sub(r.k.sub(keys, 1), step);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// What a payload of one result yields at the point.
static Value emitSite(ReferenceBuilder &r, Block &payload,
                      ValueRange arguments = {}) {
  return callPayload(r.k, payload, arguments, r.point).front();
}

Value codegen::isVisible(ReferenceBuilder &r) {
  pos::MaskOp site = r.point.getPlan().mask;
  return site ? emitSite(r, site.getBody().front()) : Value();
}

Value codegen::hide(ReferenceBuilder &r, Value score, Value visible) {
  double hidden = -std::numeric_limits<double>::infinity();
  return visible ? r.k.selectF(visible, score, r.constant(hidden)) : score;
}

Value codegen::finalScore(ReferenceBuilder &r, Value raw) {
  // Scans ask whether the key is visible.
  r.point.visible = isVisible(r);
  Value score = raw;
  if (pos::ScoreOp site = r.point.getPlan().score) {
    r.point.counts = r.point.visible;
    score = emitSite(r, site.getBody().front(), raw);
    r.point.counts = {};
    if (!score)
      return raw;
  }
  return hide(r, score, r.point.visible);
}

//===----------------------------------------------------------------------===//
// Weighted rows
//===----------------------------------------------------------------------===//

/// The row of the table at the pair, i32.
static Value getBucket(ReferenceBuilder &r, pos::WeightedRowsOp op) {
  Value index = emitSite(r, op.getBody().front());
  if (!index)
    return r.k.constantI32(0);
  r.point.noteRead(op, index);
  return index;
}

/// Element `lane` of that row.
static Value readWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                          Value bucket, Value lane) {
  return r.point.read(r.k.builder, cast<BlockArgument>(op.getTable()),
                      {bucket, r.k.toI32(lane)});
}

Value codegen::dotWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                           const Matrix &row) {
  Value bucket = getBucket(r, op);
  return r.sum(row.width, [&](Value lane) {
    Value element = readWeighted(r, op, bucket, lane);
    return r.mul(r.load(row, 0, lane), element);
  });
}

/// row += factor * the row of the table.
static void addWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                        const Matrix &row, Value factor) {
  Value bucket = getBucket(r, op);
  r.k.loop(0, row.width, 1, [&](Value lane) {
    r.addTo(row, 0, lane, r.mul(factor, readWeighted(r, op, bucket, lane)));
  });
}

void codegen::addToWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                            const Matrix &row, Value factor) {
  auto table = cast<BlockArgument>(op.getTable());
  if (!r.point.wantsGradient(table))
    return;
  Value bucket = getBucket(r, op);
  r.k.loop(0, row.width, 1, [&](Value lane) {
    r.point.addToRead(r.k.builder, table, {bucket, r.k.toI32(lane)},
                      r.mul(factor, r.load(row, 0, lane)));
  });
}

//===----------------------------------------------------------------------===//
// Rows of scores
//===----------------------------------------------------------------------===//

std::pair<Value, Value> codegen::emitSoftmax(ReferenceBuilder &r,
                                             const AttentionTensors &t,
                                             const ScoreRow &of,
                                             Value largest) {
  KernelBuilder &k = r.k;
  Value hidden = r.constant(-std::numeric_limits<double>::infinity());
  Value zero = r.constant(0.0);
  // Without a visible key every weight is 0 (C4).
  Value isEmpty = k.compareF(arith::CmpFPredicate::OEQ, largest, hidden);
  Value shift = k.selectF(isEmpty, zero, largest);
  for (const Matrix &row : of.outputs)
    r.clear(row, 1);
  Value sum = r.sum(of.scores.width, [&](Value j) {
    Value score = r.load(of.scores, of.inScores, j);
    Value weight = math::ExpOp::create(k.builder, k.loc, r.sub(score, shift));
    // A hidden key has no part in the output, whatever it holds.
    Value seen = k.compareF(arith::CmpFPredicate::UNE, score, hidden);
    k.when(seen, [&] {
      for (auto [row, value] : llvm::zip(of.outputs, of.values))
        r.addRow(row, 0, weight, value.rows, k.add(of.firstValue, j));
      r.point.moveToPair(of.batch, of.head, of.row, j);
      for (pos::WeightedRowsOp op : r.point.getPlan().weightedRows)
        addWeighted(r, op, of.outputs.front(), weight);
    });
    return weight;
  });
  for (auto [row, tensor] : llvm::zip(of.outputs, t.outputs))
    k.loop(0, row.width, 1, [&](Value c) {
      Value quotient =
          arith::DivFOp::create(k.builder, k.loc, r.load(row, 0, c), sum);
      r.storeElement(tensor, {of.batch, of.head, of.row, c},
                     k.selectF(isEmpty, zero, quotient));
    });
  if (t.statistics) {
    r.storeElement(*t.statistics, {of.batch, of.head, of.row, 0}, largest);
    r.storeElement(*t.statistics, {of.batch, of.head, of.row, 1}, sum);
  }
  Value logSum = math::LogOp::create(k.builder, k.loc, sum);
  return {isEmpty, r.add(largest, logSum)};
}

Value codegen::emitWeight(ReferenceBuilder &r, const AttentionTensors &t,
                          Index batch, Index head, Index row, Value score) {
  KernelBuilder &k = r.k;
  Value shift = r.loadElement(*t.statistics, {batch, head, row, 0});
  return arith::DivFOp::create(
      k.builder, k.loc,
      math::ExpOp::create(k.builder, k.loc, r.sub(score, shift)),
      r.loadElement(*t.statistics, {batch, head, row, 1}));
}

Value codegen::loadDelta(ReferenceBuilder &r, const AttentionTensors &t,
                         Index batch, Index head, Index row,
                         ArrayRef<Matrix> seeds, Index to) {
  Value delta =
      r.sub(r.constant(0.0), r.loadElement(t.lseGradient, {batch, head, row}));
  for (auto [seed, tensor, gradient] :
       llvm::zip(seeds, t.outputs, t.outputGradients)) {
    r.loadRow(gradient, {batch, head, row}, seed, to);
    delta = r.fold(seed.width, delta, [&](Value c, Value sum) {
      Value output = r.loadElement(tensor, {batch, head, row, c});
      return r.add(sum, r.mul(r.load(seed, to, c), output));
    });
  }
  return delta;
}
