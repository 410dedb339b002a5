//===- ForwardLowering.cpp - The forward on the CPU -----------------------===//

#include "codegen/CPU/ForwardLowering.h"
#include "codegen/CPU/AllHeads/AllHeadsForwardLoopNest.h"
#include "codegen/CPU/Forward/ForwardLoopNest.h"
#include "codegen/CPU/Forward/ForwardPoint.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowProducts.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

LogicalResult sextant::codegen::verifyCPUOperands(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
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
  if (used > ForwardPoint::packedAxes)
    return owner.emitOpError("kernels of the CPU take positions of up to ")
           << ForwardPoint::packedAxes << " axes, a payload asks for " << used;
  for (Value positions : {operands.queryPositions, operands.keyPositions}) {
    if (!positions)
      continue;
    int64_t axes = cast<RankedTensorType>(positions.getType()).getDimSize(2);
    if (!ShapedType::isDynamic(axes) && axes > ForwardPoint::packedAxes)
      return owner.emitOpError("kernels of the CPU take positions of up to ")
             << ForwardPoint::packedAxes << " axes, got " << axes;
  }
  return success();
}

FailureOr<SmallVector<Value>>
sextant::codegen::lowerForward(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  if (failed(verifyCPUOperands(lowering.plan)))
    return failure();
  if (lowering.plan.scoreHeads)
    return lowerAllHeadsForward(lowering);
  Value query = op.getQuery();
  Type element = cast<RankedTensorType>(query.getType()).getElementType();
  ForwardLaunch launch(lowering.plan, lowering.target, element,
                       getHeadParts(lowering.plan, query),
                       getHeadDims(op.getValues()));
  HoistTableOptions options;
  options.order = OffsetOrder::Descending;
  options.padding = 2 * launch.panel;
  HoistTables tables = launchHoists(lowering, options);

  LaunchOperands operands;
  addForwardReads(lowering, tables, launch, operands);
  for (auto [number, table] : llvm::enumerate(lowering.plan.rowTables)) {
    RowProducts products(table, query, op.getKey(), op.getParams());
    products.used = launchUsedEntries(lowering, tables, number, products);
    launch.sites.rowProducts.push_back(operands.read(launchRowProducts(
        lowering, ("products_" + Twine(number)).str(), products,
        table.side == pos::Side::query ? ProductLayout::Lanes
                                       : ProductLayout::Rows)));
  }
  for (size_t number = 0; number < lowering.plan.offsetProducts.size();
       ++number) {
    bool ofKeys =
        lowering.plan.offsetProducts[number].table.side == pos::Side::key;
    OffsetRows rows =
        launchOffsetRows(lowering, tables, number, /*transposes=*/ofKeys);
    launch.offsetRows.push_back(
        operands.read(ofKeys ? rows.transposed : rows.rows));
    launch.offsetEnds.emplace_back();
    if (rows.ends)
      launch.offsetEnds.back() = operands.read(rows.ends);
  }
  addForwardWrites(lowering, launch, operands);
  createForwardKernel(lowering, "forward", launch);
  launchAttention(lowering, operands, "forward", launch.sites,
                  2 * (launch.headDim + launch.valueDim));
  return operands.writes;
}
