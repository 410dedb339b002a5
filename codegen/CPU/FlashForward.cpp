//===- FlashForward.cpp - Attention on the CPU ----------------------------===//

#include "codegen/CPU/FlashForward.h"
#include "codegen/CPU/ForwardKernel.h"
#include "codegen/CPU/HeadsForward.h"
#include "codegen/CPU/RowProducts.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

LogicalResult sextant::codegen::verifyCPUOperands(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  auto type = cast<RankedTensorType>(operands.query.getType());
  Type element = type.getElementType();
  if (!element.isF32() && !element.isBF16())
    return owner.emitOpError("kernels of the CPU compute f32 and bf16, not ")
           << element << "; the target 'reference' computes f64";
  for (pos::QueryDotOp op : plan.queryDots)
    if (isa<pos::SumOp>(op->getParentOp()))
      return op.emitOpError("in a sum has no kernel on the CPU; the target "
                            "'reference' computes it");
  for (pos::WeightedRowsOp op : plan.weightedRows)
    for (const Hoisted &hoisted : plan.hoisted)
      if (plan.hasPositions && hoisted.form == HoistForm::OffsetTable &&
          llvm::any_of(hoisted.op->getUsers(), [&](Operation *user) {
            return op->isProperAncestor(user);
          }))
        return op.emitOpError("with a value over offsets has no kernel on the "
                              "CPU under given positions");
  int64_t used = 0; // axes that payloads ask for
  owner.getSitesRegion().walk([&](Operation *op) {
    if (auto coord = dyn_cast<pos::CoordOp>(op))
      used = std::max<int64_t>(used, coord.getAxis() + 1);
    if (auto offset = dyn_cast<pos::OffsetOp>(op))
      used = std::max<int64_t>(used, offset.getAxis() + 1);
  });
  if (used > ScoreSite::packedAxes)
    return owner.emitOpError("kernels of the CPU take positions of up to ")
           << ScoreSite::packedAxes << " axes, a payload asks for " << used;
  for (Value positions : {operands.queryPositions, operands.keyPositions}) {
    if (!positions)
      continue;
    int64_t axes = cast<RankedTensorType>(positions.getType()).getDimSize(2);
    if (!ShapedType::isDynamic(axes) && axes > ScoreSite::packedAxes)
      return owner.emitOpError("kernels of the CPU take positions of up to ")
             << ScoreSite::packedAxes << " axes, got " << axes;
  }
  return success();
}

/// 4 B H Lq Lk d, as for any attention; tiles that a mask hides count as well.
static Value countFlops(const Lowering &lowering, Value query, Value key,
                        int64_t dims) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  Value flops = arith::ConstantIndexOp::create(builder, loc, 2 * dims);
  for (Value extent : {lowering.getDim(query, 0), lowering.getDim(query, 1),
                       lowering.getDim(query, 2), lowering.getDim(key, 2)})
    flops = arith::MulIOp::create(builder, loc, flops, extent);
  return flops;
}

FailureOr<SmallVector<Value>>
sextant::codegen::lowerFlashForward(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  if (failed(verifyCPUOperands(lowering.plan)))
    return failure();
  if (lowering.plan.scoreHeads)
    return lowerHeadsForward(lowering);
  Value query = op.getQuery(), key = op.getKey();
  Type element = cast<RankedTensorType>(query.getType()).getElementType();
  ForwardTask task(lowering.plan, lowering.target.vector, element,
                   getHeadParts(lowering.plan, query),
                   getHeadDims(op.getValues()));
  HoistTableOptions options;
  options.order = OffsetOrder::Descending;
  options.padding = 2 * task.panel;
  FailureOr<HoistTables> tables = launchHoists(lowering, options);
  if (failed(tables))
    return failure();

  SmallVector<Value> reads{query, key};
  llvm::append_range(reads, op.getValues());
  task.sites.query = task.operands.add(query.getType());
  task.sites.key = task.operands.add(key.getType());
  for (Value value : op.getValues())
    task.sites.values.push_back(task.operands.add(value.getType()));
  task.sites.append(lowering.plan, *tables, task.operands, reads);
  for (auto [number, table] : llvm::enumerate(lowering.plan.queryTables)) {
    RowProducts products{query, op.getParams()[table.param], table.columns};
    reads.push_back(launchRowProducts(lowering,
                                      ("products_" + Twine(number)).str(),
                                      products, ProductLayout::Lanes));
    task.sites.queryProducts.push_back(
        task.operands.add(reads.back().getType()));
  }
  SmallVector<Value> sizes{lowering.getDim(query, 0), lowering.getDim(query, 1),
                           lowering.getDim(query, 2), Value()};
  SmallVector<Value> results;
  for (Value output : op.getOutputs()) {
    results.push_back(
        lowering.allocate(cast<RankedTensorType>(output.getType()), sizes));
    task.outputs.push_back(task.operands.add(output.getType()));
  }
  results.push_back(
      lowering.allocate(cast<RankedTensorType>(op.getLse().getType()), sizes));
  task.lse = task.operands.add(op.getLse().getType());
  if (failed(createForwardKernel(lowering.kernels, lowering.getLoc(),
                                 lowering.getKernelName("forward"), task,
                                 lowering.target.vector)))
    return failure();
  Value flops = countFlops(lowering, query, key, task.headDim + task.valueDim);
  exec::LaunchOp::create(lowering.builder, lowering.getLoc(),
                         lowering.getKernel("forward"), reads, results,
                         ValueRange(), flops, Value());
  return results;
}
