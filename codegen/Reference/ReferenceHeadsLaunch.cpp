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

/// Launches the kernel of one element of the batch.
static LogicalResult launchBatch(const ReferenceLaunch &launch,
                                 const AttentionTensors &t, bool isBackward) {
  auto batches = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return arguments.getSize(t.query, 0);
  };
  auto elements = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return countScratch(k, arguments, t, launch.lowering.plan, isBackward);
  };
  auto run = [&](ReferenceKernel &r, Index batch) {
    runAllHeads(r, t, batch, isBackward);
  };
  return launch.create(isBackward ? "backward" : "forward", batches, elements,
                       run);
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
  if (failed(launchBatch({lowering, operands, layout, log}, t,
                         /*isBackward=*/false)))
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
  if (failed(launchBatch({lowering, operands, layout}, t, /*isBackward=*/true)))
    return failure();
  return results;
}
