//===- ReferenceForward.cpp - Attention by its definition -----------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceHeads.h"
#include "codegen/Reference/ReferenceLowerings.h"
#include "mlir/Dialect/Math/IR/Math.h"
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

Value ReferenceKernel::isVisible() {
  pos::MaskOp site = point.getPlan().mask;
  if (!site)
    return {};
  FailureOr<SmallVector<Value>> values =
      emitPayload(k.builder, site.getBody().front(), {}, point);
  if (succeeded(values))
    return values->front();
  point.failed = true;
  return {};
}

Value ReferenceKernel::hide(Value score, Value visible) {
  return visible ? k.selectF(visible, score,
                             constant(-std::numeric_limits<double>::infinity()))
                 : score;
}

Value ReferenceKernel::finalScore(Value raw) {
  // Scans ask whether the key is visible.
  point.visible = isVisible();
  Value score = raw;
  if (pos::ScoreOp site = point.getPlan().score) {
    point.counts = point.visible;
    FailureOr<SmallVector<Value>> values =
        emitPayload(k.builder, site.getBody().front(), {score}, point);
    point.counts = {};
    if (failed(values)) {
      point.failed = true;
      return score;
    }
    score = values->front();
  }
  return hide(score, point.visible);
}

void ReferenceKernel::storeStatistics(const AttentionTensors &tensors,
                                      Index batch, Index head, Index row,
                                      Value largest, Value sum) {
  if (!tensors.statistics)
    return;
  storeElement(*tensors.statistics, {batch, head, row, 0}, largest);
  storeElement(*tensors.statistics, {batch, head, row, 1}, sum);
}

Value ReferenceKernel::rowTerm(Index batch, Index head, Index row) {
  pos::RowTermOp term = point.getPlan().rowTerm;
  if (!term)
    return constant(0.0);
  point.moveToPair(batch, head, row, 0);
  return point.hoisted(k.builder, term.getHoist());
}

//===----------------------------------------------------------------------===//
// One head
//===----------------------------------------------------------------------===//

/// A matrix with the mapped rows of one head of an operand.
static Matrix mapRows(ReferenceKernel &r, RowOperand operand, unsigned tensor,
                      ArrayRef<RowMap> maps, Index batch, Index head) {
  Index rows = r.arguments.getSize(tensor, 2);
  Matrix matrix = r.allocate(rows, r.getRowWidth(operand, tensor));
  r.k.loop(0, rows, 1, [&](Value row) {
    r.point.moveToRow(operand, batch, head, row);
    r.loadRow(tensor, {batch, head, row}, matrix, row);
    r.mapRow(maps, matrix, row);
    r.appendColumns(operand, matrix, row);
  });
  return matrix;
}

static void runHead(ReferenceKernel &r, const AttentionTensors &t, Index batch,
                    Index head) {
  KernelBuilder &k = r.k;
  const KernelPlan &plan = r.point.getPlan();
  Index queries = r.arguments.getSize(t.query, 2);
  Index keys = r.arguments.getSize(t.key, 2);
  Index group = k.div(r.arguments.getSize(t.query, 1),
                      k.max(r.arguments.getSize(t.key, 1), 1));
  Index keyHead = k.div(head, group);
  Matrix mappedKeys =
      mapRows(r, RowOperand::key, t.key, plan.keyRows, batch, keyHead);
  SmallVector<Matrix> mappedValues, output;
  for (unsigned value : t.values) {
    mappedValues.push_back(
        mapRows(r, RowOperand::value, value, plan.valueRows, batch, keyHead));
    output.push_back(r.allocate(1, r.arguments.getSize(value, 3)));
  }
  Matrix scores = r.allocate(1, keys);
  Index width = r.arguments.getSize(t.query, 3);
  Matrix queryRow = r.allocate(1, r.getRowWidth(RowOperand::query, t.query));
  r.point.rows = &r;
  r.point.contextual = r.allocateContextual(width, keys);
  r.point.contextual.key = t.key;
  r.point.contextual.keyHead = keyHead;
  Value hidden = r.constant(-std::numeric_limits<double>::infinity());
  Value zero = r.constant(0.0);

  k.loop(0, queries, 1, [&](Value i) {
    r.point.moveToRow(RowOperand::query, batch, head, i);
    r.loadRow(t.query, {batch, head, i}, queryRow, 0);
    r.loadRow(t.query, {batch, head, i}, r.point.contextual.query, 0);
    r.clear(r.point.contextual.carry, plan.scans.size());
    r.mapRow(plan.queryRows, queryRow, 0);
    r.appendColumns(RowOperand::query, queryRow, 0);
    Value largest =
        k.loop(0, keys, 1, {hidden},
               [&](Value step, ValueRange now) -> KernelBuilder::Values {
                 Index j = r.toKey(step, keys);
                 Value raw = r.mul(r.dot(queryRow, 0, mappedKeys, j),
                                   r.constant(plan.scale));
                 r.point.moveToPair(batch, head, i, j);
                 Value score = r.finalScore(raw);
                 r.store(scores, 0, j, score);
                 return {arith::MaximumFOp::create(k.builder, k.loc, now[0],
                                                   score)};
               })
            .front();
    // Without a visible key every weight is 0 (C4).
    Value isEmpty = k.compareF(arith::CmpFPredicate::OEQ, largest, hidden);
    Value shift = k.selectF(isEmpty, zero, largest);
    for (Matrix &row : output)
      r.clear(row, 1);
    Value sum =
        k.loop(0, keys, 1, {zero},
               [&](Value j, ValueRange now) -> KernelBuilder::Values {
                 Value score = r.load(scores, 0, j);
                 Value weight =
                     math::ExpOp::create(k.builder, k.loc, r.sub(score, shift));
                 // A hidden key has no part in the output, whatever it holds.
                 Value seen =
                     k.compareF(arith::CmpFPredicate::UNE, score, hidden);
                 k.when(seen, [&] {
                   for (auto [row, value] : llvm::zip(output, mappedValues))
                     k.loop(0, row.width, 1, [&](Value c) {
                       r.addTo(row, 0, c, r.mul(weight, r.load(value, j, c)));
                     });
                   r.point.moveToPair(batch, head, i, j);
                   for (pos::WeightedRowsOp op : plan.weightedRows)
                     r.addWeighted(op, output.front(), weight);
                 });
                 return {r.add(now[0], weight)};
               })
            .front();
    for (auto [row, tensor] : llvm::zip(output, t.outputs))
      k.loop(0, row.width, 1, [&](Value c) {
        Value quotient =
            arith::DivFOp::create(k.builder, k.loc, r.load(row, 0, c), sum);
        r.storeElement(tensor, {batch, head, i, c},
                       k.selectF(isEmpty, zero, quotient));
      });
    r.storeStatistics(t, batch, head, i, largest, sum);
    Value logSum = math::LogOp::create(k.builder, k.loc, sum);
    Value lse = r.add(largest, logSum);
    r.storeElement(
        t.lse, {batch, head, i},
        k.selectF(isEmpty, hidden, r.add(lse, r.rowTerm(batch, head, i))));
  });
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAttention(const Lowering &lowering, ReadLog *log) {
  if (lowering.plan.scoreHeads)
    return lowerReferenceAllHeads(lowering, log);
  FloatType type =
      getReferenceType(getOwnerOperands(lowering.plan.owner).query);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results = addForwardTensors(lowering, operands, t);
  if (log)
    log->addTo(operands);

  auto countHeads = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(t.query, 0), arguments.getSize(t.query, 1));
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {log ? Index(1) : countHeads(k, arguments)});
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    // Keys, values and scores; a row of the query and of each output.
    int64_t columns = lowering.plan.countColumns();
    Index perKey = k.add(arguments.getSize(t.key, 3), columns + 1);
    Index single = k.add(arguments.getSize(t.query, 3), columns);
    for (unsigned value : t.values) {
      perKey = k.add(perKey, arguments.getSize(value, 3));
      single = k.add(single, arguments.getSize(value, 3));
    }
    Index keys = arguments.getSize(t.key, 2);
    single =
        k.add(single, countContextual(k, lowering.plan,
                                      arguments.getSize(t.query, 3), keys));
    return getScratchBytes(k, type, k.add(k.mul(keys, perKey), single));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    point.log = log;
    auto runItem = [&](Value item) {
      ReferenceKernel r(k, arguments, point, memory);
      Index heads = arguments.getSize(t.query, 1);
      runHead(r, t, k.div(item, heads), k.rem(item, heads));
    };
    if (log)
      k.loop(0, countHeads(k, arguments), 1, runItem);
    else
      k.loop(items.begin, items.end, 1, runItem);
    k.check(failure(point.failed));
  };
  operands.launch(lowering, "forward", {items, scratch, run});
  if (mlir::failed(lowering.status))
    return failure();
  return results;
}
