//===- ReferenceForward.cpp - Attention by its definition -----------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceAllHeads.h"
#include "codegen/Reference/ReferenceLowerings.h"
#include "codegen/Reference/ReferenceScore.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

TargetLowerings codegen::getReferenceLowerings() {
  return {[](const Lowering &op) { return lowerReferenceAttention(op); },
          lowerReferenceBackward,
          [](const Lowering &op) { return lowerReferenceMapRows(op); },
          lowerReferenceMapRowsBackward};
}

VectorTarget codegen::getReferenceVectors() {
  VectorTarget target;
  target.width = 1;
  return target;
}

//===----------------------------------------------------------------------===//
// One head
//===----------------------------------------------------------------------===//

/// The rows of one head of an operand.
static OperandRows loadHead(ReferenceBuilder &r, RowOperand operand,
                            unsigned tensor, Index batch, Index head) {
  Index count = r.arguments.getSize(tensor, 2);
  OperandRows rows =
      allocateRows(r, operand, tensor, count, /*wantsGradient=*/false);
  r.k.loop(0, count, 1,
           [&](Value row) { loadMapped(r, rows, batch, head, row, row); });
  return rows;
}

/// What the log-sum-exp of a row has beyond that of its final scores; the point
/// then stands at the row.
static Value emitRowTerm(ReferenceBuilder &r, Index batch, Index head,
                         Index row) {
  pos::RowTermOp term = r.point.getPlan().rowTerm;
  if (!term)
    return r.constant(0.0);
  r.point.moveToPair(batch, head, row, 0);
  return r.point.hoisted(r.k.builder, term.getHoist());
}

static void runHead(ReferenceBuilder &r, const AttentionTensors &t, Index batch,
                    Index head) {
  KernelBuilder &k = r.k;
  const KernelPlan &plan = r.point.getPlan();
  Index queries = r.arguments.getSize(t.query, 2);
  Index keys = r.arguments.getSize(t.key, 2);
  Index group = k.div(r.arguments.getSize(t.query, 1),
                      k.max(r.arguments.getSize(t.key, 1), 1));
  Index keyHead = k.div(head, group);
  OperandRows key = loadHead(r, RowOperand::key, t.key, batch, keyHead);
  SmallVector<OperandRows> values;
  SmallVector<Matrix> outputs;
  for (unsigned value : t.values) {
    values.push_back(loadHead(r, RowOperand::value, value, batch, keyHead));
    outputs.push_back(r.allocate(1, r.arguments.getSize(value, 3)));
  }
  Matrix scores = r.allocate(1, keys);
  Index width = r.arguments.getSize(t.query, 3);
  OperandRows query = allocateRows(r, RowOperand::query, t.query, 1,
                                   /*wantsGradient=*/false);
  r.point.rows = &r;
  r.point.contextual = allocateContextual(r, width, keys);
  r.point.contextual.key = t.key;
  r.point.contextual.keyHead = keyHead;
  Value hidden = r.constant(-std::numeric_limits<double>::infinity());

  k.loop(0, queries, 1, [&](Value i) {
    r.loadRow(t.query, {batch, head, i}, r.point.contextual.query, 0);
    r.clear(r.point.contextual.carry, plan.scans.size());
    loadMapped(r, query, batch, head, i, 0);
    Value largest = r.fold(keys, hidden, [&](Value step, Value now) -> Value {
      Index j = toKey(r, step, keys);
      Value raw =
          r.mul(r.dot(query.rows, 0, key.rows, j), r.constant(plan.scale));
      r.point.moveToPair(batch, head, i, j);
      Value score = finalScore(r, raw);
      r.store(scores, 0, j, score);
      return arith::MaximumFOp::create(k.builder, k.loc, now, score);
    });
    ScoreRow row{batch, head, i, scores, 0, values, 0, outputs};
    auto [isEmpty, lse] = emitSoftmax(r, t, row, largest);
    Value total = r.add(lse, emitRowTerm(r, batch, head, i));
    r.storeElement(t.lse, {batch, head, i}, k.selectF(isEmpty, hidden, total));
  });
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAttention(const Lowering &lowering, ReadLog *log) {
  const KernelPlan &plan = lowering.plan;
  if (failed(verifyAllHeads(plan)))
    return failure();
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results = addForwardTensors(lowering, operands, t);
  if (log)
    log->addTo(operands);
  auto units = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    Index batches = arguments.getSize(t.query, 0);
    return plan.scoreHeads ? batches
                           : k.mul(batches, arguments.getSize(t.query, 1));
  };
  auto elements = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    if (plan.scoreHeads)
      return countAllHeads(k, arguments, t, plan, /*isBackward=*/false);
    // Keys, values and scores; a row of the query and of each output.
    int64_t columns = plan.countColumns();
    Index perKey = k.add(arguments.getSize(t.key, 3), columns + 1);
    Index single = k.add(arguments.getSize(t.query, 3), columns);
    for (unsigned value : t.values) {
      perKey = k.add(perKey, arguments.getSize(value, 3));
      single = k.add(single, arguments.getSize(value, 3));
    }
    Index keys = arguments.getSize(t.key, 2);
    single = k.add(
        single, countContextual(k, plan, arguments.getSize(t.query, 3), keys));
    return k.add(k.mul(keys, perKey), single);
  };
  auto run = [&](ReferenceBuilder &r, Index item) {
    if (plan.scoreHeads)
      return runAllHeads(r, t, item, /*isBackward=*/false);
    Index count = r.arguments.getSize(t.query, 1);
    runHead(r, t, r.k.div(item, count), r.k.rem(item, count));
  };
  ReferenceLaunch launch{lowering, operands, layout, log};
  if (failed(launch.create("forward", units, elements, run)))
    return failure();
  return results;
}
