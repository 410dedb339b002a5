//===- ReferenceHeadsLaunch.cpp - Launches of scores of all heads ---------===//

#include "codegen/Reference/ReferenceHeads.h"
#include "codegen/Reference/ReferenceVectors.h"
#include "passes/Encoding/Slices.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

LogicalResult codegen::completeBodies(const KernelPlan &plan) {
  if (pos::RowTermOp term = plan.rowTerm)
    return term.emitOpError("has no kernel beside a score of all heads");
  auto complete = [](Block &payload) {
    for (auto atHeads : payload.getOps<pos::ForHeadsOp>())
      passes::moveScalarsIn(atHeads, payload);
  };
  pos::ScoreOp score = plan.score;
  complete(score.getPayload());
  for (const Hoisted &entry : plan.hoisted)
    if (entry.extent) {
      pos::HoistOp hoist = entry.op;
      complete(hoist.getBody().front());
    }
  return success();
}

/// Elements of scratch memory: mapped rows of all heads (in a backward their
/// gradients too), a row of scores per head, buffers of the payload.
static Index countScratch(KernelBuilder &k, ArgumentBlock &arguments,
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

/// Creates and launches the kernel of one element of the batch per item, or of
/// all in one where gradients of parameters are summed.
static LogicalResult
createBatchKernel(const Lowering &lowering, StringRef suffix,
                  const LaunchOperands &operands, const PointLayout &layout,
                  const AttentionTensors &t, bool isBackward,
                  const ReadLog *log = nullptr) {
  FloatType type =
      getReferenceType(getOwnerOperands(lowering.plan.owner).query);
  bool oneItem = log || !layout.paramGradients.empty();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {oneItem ? Index(1) : arguments.getSize(t.query, 0)});
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return getScratchBytes(
        k, type, countScratch(k, arguments, t, lowering.plan, isBackward));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    point.log = log;
    auto runItem = [&](Value batch) {
      ReferenceKernel r(k, arguments, point, memory);
      runAllHeads(r, t, batch, isBackward);
    };
    if (oneItem)
      k.loop(items.begin, items.end, 1, [&](Value) {
        k.loop(0, arguments.getSize(t.query, 0), 1, runItem);
      });
    else
      k.loop(items.begin, items.end, 1, runItem);
    k.check(failure(point.failed));
  };
  operands.launch(lowering, suffix, {items, scratch, run});
  return lowering.status;
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAllHeads(const Lowering &lowering, ReadLog *log) {
  if (failed(completeBodies(lowering.plan)))
    return failure();
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results = addForwardTensors(lowering, operands, t);
  if (log)
    log->addTo(operands);
  if (failed(createBatchKernel(lowering, "forward", operands, layout, t,
                               /*isBackward=*/false, log)))
    return failure();
  return results;
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAllHeadsBackward(const Lowering &lowering) {
  if (failed(completeBodies(lowering.plan)))
    return failure();
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AttentionTensors t;
  SmallVector<Value> results =
      addBackwardTensors(lowering, operands, layout, t);
  if (failed(createBatchKernel(lowering, "backward", operands, layout, t,
                               /*isBackward=*/true)))
    return failure();
  return results;
}
