//===- ForwardLowering.cpp - Attention on the CPU -------------------------===//

#include "codegen/CPU/AllHeads/HeadsForward.h"
#include "codegen/CPU/AttentionLowering.h"
#include "codegen/CPU/Forward/AttentionLaunch.h"
#include "codegen/Rows/RowProducts.h"

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

FailureOr<SmallVector<Value>>
sextant::codegen::lowerAttention(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  if (failed(verifyCPUOperands(lowering.plan)))
    return failure();
  if (lowering.plan.scoreHeads)
    return lowerHeadsForward(lowering);
  Value query = op.getQuery();
  Type element = cast<RankedTensorType>(query.getType()).getElementType();
  ForwardTask task(lowering.plan, lowering.target, element,
                   getHeadParts(lowering.plan, query),
                   getHeadDims(op.getValues()));
  HoistTableOptions options;
  options.order = OffsetOrder::Descending;
  options.padding = 2 * task.panel;
  HoistTables tables = launchHoists(lowering, options);

  LaunchOperands operands;
  addForwardReads(lowering, tables, task, operands);
  for (auto [number, table] : llvm::enumerate(lowering.plan.rowTables)) {
    RowProducts products(table, query, op.getKey(), op.getParams());
    products.used = launchUsedEntries(lowering, tables, number, products);
    task.sites.rowProducts.push_back(operands.read(launchRowProducts(
        lowering, ("products_" + Twine(number)).str(), products,
        table.side == pos::Side::query ? ProductLayout::Lanes
                                       : ProductLayout::Rows)));
  }
  for (size_t number = 0; number < lowering.plan.offsetProducts.size();
       ++number) {
    OffsetRows rows = launchOffsetRows(lowering, tables, number,
                                       /*transposes=*/false);
    task.offsetRows.push_back(operands.read(rows.rows));
  }
  addForwardWrites(lowering, task, operands);
  createForwardKernel(lowering, "forward", task);
  launchAttention(lowering, operands, "forward", task.sites,
                  2 * (task.headDim + task.valueDim));
  return operands.writes;
}
