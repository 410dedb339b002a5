//===- ReferenceLaunch.cpp - Launches of the reference --------------------===//

#include "codegen/Reference/ReferenceLaunch.h"
#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/RowIndices.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

PointLayout codegen::addReferenceReads(const Lowering &lowering,
                                       LaunchOperands &operands) {
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return true; });
  if (Value bounds = launchBounds(lowering))
    layout.bounds = operands.read(bounds);
  return layout;
}

SmallVector<Value> codegen::addParamGradients(const Lowering &lowering,
                                              LaunchOperands &operands,
                                              PointLayout &layout,
                                              ArrayRef<int32_t> numbers) {
  SmallVector<Value> gradients;
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  for (int32_t number : numbers) {
    Value param = owner.getParamOperands()[number];
    gradients.push_back(
        lowering.allocateLike(param, param.getType(), /*zero=*/true));
    layout.paramGradients[number] = operands.write(gradients.back());
  }
  return gradients;
}

SmallVector<Value> codegen::addForwardTensors(const Lowering &lowering,
                                              LaunchOperands &operands,
                                              AttentionTensors &tensors) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  tensors.query = operands.read(op.getQuery());
  tensors.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    tensors.values.push_back(operands.read(value));
  SmallVector<Value> results, sizes;
  for (unsigned dim : {0u, 1u, 2u})
    sizes.push_back(lowering.getDim(op.getQuery(), dim));
  for (auto [value, result] : llvm::zip(op.getValues(), op.getOutputs())) {
    SmallVector<Value> all(sizes);
    all.push_back(lowering.getDim(value, 3));
    results.push_back(
        lowering.allocate(cast<RankedTensorType>(result.getType()), all));
    tensors.outputs.push_back(operands.write(results.back()));
  }
  results.push_back(
      lowering.allocate(cast<RankedTensorType>(op.getLse().getType()), sizes));
  tensors.lse = operands.write(results.back());
  if (Value statistics = op.getStatistics()) {
    sizes.push_back(Value());
    results.push_back(
        lowering.allocate(cast<RankedTensorType>(statistics.getType()), sizes));
    tensors.statistics = operands.write(results.back());
  }
  return results;
}

SmallVector<Value> codegen::addBackwardTensors(const Lowering &lowering,
                                               LaunchOperands &operands,
                                               PointLayout &layout,
                                               AttentionTensors &tensors) {
  auto op = cast<pos::AttentionBackwardOp>(lowering.getOp());
  tensors.query = operands.read(op.getQuery());
  tensors.key = operands.read(op.getKey());
  tensors.statistics = operands.read(op.getStatistics());
  tensors.lseGradient = operands.read(op.getLseGradient());
  for (auto [value, output, gradient] :
       llvm::zip(op.getValues(), op.getOutputs(), op.getOutputGradients())) {
    tensors.values.push_back(operands.read(value));
    tensors.outputs.push_back(operands.read(output));
    tensors.outputGradients.push_back(operands.read(gradient));
  }
  SmallVector<Value> results;
  auto addResult = [&](Value like, Value result) {
    results.push_back(lowering.allocateLike(like, result.getType()));
    return operands.write(results.back());
  };
  tensors.queryGradient = addResult(op.getQuery(), op.getQueryGradient());
  tensors.keyGradient = addResult(op.getKey(), op.getKeyGradient());
  for (auto [value, gradient] :
       llvm::zip(op.getValues(), op.getValueGradients()))
    tensors.valueGradients.push_back(addResult(value, gradient));
  results.append(
      addParamGradients(lowering, operands, layout, op.getParamGradients()));
  return results;
}

LogicalResult ReferenceLaunch::create(
    StringRef suffix, Count units, Count elements,
    function_ref<void(ReferenceBuilder &, Index)> body) const {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  std::optional<MappedRows> mapped = getMappedRows(owner);
  FloatType type =
      getReferenceType(mapped ? mapped->input : getOwnerOperands(owner).query);
  bool oneItem = log || !layout.paramGradients.empty();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {oneItem ? Index(1) : units(k, arguments)});
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(elements(k, arguments), type.getIntOrFloatBitWidth() / 8);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    point.log = log;
    Index first = oneItem ? 0 : items.begin;
    Index end = oneItem ? units(k, arguments) : items.end;
    k.loop(first, end, 1, [&](Value unit) {
      ReferenceBuilder r(k, arguments, point, memory);
      body(r, unit);
    });
  };
  operands.launch(lowering, suffix, {items, scratch, run});
  return lowering.status;
}
