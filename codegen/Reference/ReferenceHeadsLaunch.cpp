//===- ReferenceHeadsLaunch.cpp - Launches of scores of all heads ---------===//

#include "codegen/Reference/ReferenceHeads.h"
#include "codegen/Reference/ReferenceVectors.h"
#include "passes/Encoding/Slices.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Makes bodies of `pos.for_heads` complete payloads of their own.
static LogicalResult completeBodies(const KernelPlan &plan) {
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
                          const AllHeadsTensors &t, const KernelPlan &plan,
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
                  const AllHeadsTensors &t, bool isBackward) {
  FloatType type =
      getReferenceType(getOwnerOperands(lowering.plan.owner).query);
  bool oneItem = !layout.paramGradients.empty();
  bool failed = false;
  auto items = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return oneItem ? Index(1) : arguments.getSize(t.query, 0);
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return getScratchBytes(
        k, type, countScratch(k, arguments, t, lowering.plan, isBackward));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    auto runItem = [&](Value batch) {
      ReferenceKernel r(k, arguments, point, memory);
      runAllHeads(r, t, batch, isBackward);
    };
    if (oneItem)
      k.loop(begin, end, 1, [&](Value) {
        k.loop(0, arguments.getSize(t.query, 0), 1, runItem);
      });
    else
      k.loop(begin, end, 1, runItem);
    failed = point.failed;
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands.layout,
               lowering.target.vector, {items, scratch, run});
  operands.launch(lowering, suffix);
  return failure(failed);
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAllHeads(const Lowering &lowering) {
  if (failed(completeBodies(lowering.plan)))
    return failure();
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  auto op = cast<pos::AttentionOp>(*owner);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AllHeadsTensors t;
  t.query = operands.read(op.getQuery());
  t.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    t.values.push_back(operands.read(value));
  SmallVector<Value> results, sizes;
  for (unsigned dim : {0u, 1u, 2u})
    sizes.push_back(lowering.getDim(op.getQuery(), dim));
  for (auto [value, result] : llvm::zip(op.getValues(), op.getOutputs())) {
    SmallVector<Value> all(sizes);
    all.push_back(lowering.getDim(value, 3));
    results.push_back(
        lowering.allocate(cast<RankedTensorType>(result.getType()), all));
    t.outputs.push_back(operands.write(results.back()));
  }
  results.push_back(
      lowering.allocate(cast<RankedTensorType>(op.getLse().getType()), sizes));
  t.lse = operands.write(results.back());
  if (failed(createBatchKernel(lowering, "forward", operands, layout, t,
                               /*isBackward=*/false)))
    return failure();
  return results;
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceAllHeadsBackward(const Lowering &lowering) {
  if (failed(completeBodies(lowering.plan)))
    return failure();
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  auto op = cast<pos::AttentionBackwardOp>(*owner);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  AllHeadsTensors t;
  t.query = operands.read(op.getQuery());
  t.key = operands.read(op.getKey());
  t.lse = operands.read(op.getLse());
  t.lseGradient = operands.read(op.getLseGradient());
  for (auto [value, output, gradient] :
       llvm::zip(op.getValues(), op.getOutputs(), op.getOutputGradients())) {
    t.values.push_back(operands.read(value));
    t.outputs.push_back(operands.read(output));
    t.outputGradients.push_back(operands.read(gradient));
  }
  SmallVector<Value> results;
  auto addResult = [&](Value like, Value result) {
    results.push_back(lowering.allocateLike(like, result.getType()));
    return operands.write(results.back());
  };
  t.queryGradient = addResult(op.getQuery(), op.getQueryGradient());
  t.keyGradient = addResult(op.getKey(), op.getKeyGradient());
  for (auto [value, gradient] :
       llvm::zip(op.getValues(), op.getValueGradients()))
    t.valueGradients.push_back(addResult(value, gradient));
  results.append(
      addParamGradients(lowering, operands, layout, op.getParamGradients()));
  if (failed(createBatchKernel(lowering, "backward", operands, layout, t,
                               /*isBackward=*/true)))
    return failure();
  return results;
}
