//===- RowGradients.cpp - Gradients of tables behind row maps -------------===//

#include "codegen/Rows/RowGradients.h"
#include "codegen/Plan/RowLaneTables.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

bool GradientRowPoint::wantsGradient(pos::HoistOp hoist) {
  const Hoisted *hoisted = plan.find(hoist, operand);
  return hoisted && hoisted->wantsGradient;
}

void GradientRowPoint::addToHoisted(OpBuilder &, pos::HoistOp hoist,
                                    Value cotangent) {
  const Hoisted *hoisted = plan.find(hoist, operand);
  size_t number = hoisted - plan.hoisted.data();
  Value start =
      isPartial
          ? gradients[number].getRow(kernel, arguments, headPlace.batch,
                                     headPlace.head, row, getTableRow(*hoisted))
          : arguments.getAddress(
                *gradients[number],
                {hoisted->perBatch ? headPlace.batch : Index(0), 0, row});
  if (!hoisted->axes.contains(pos::Axis::lane)) {
    Value sum = kernel.sumLanes(kernel.broadcast(cotangent));
    kernel.store(kernel.addF(kernel.loadF32(start), sum), start);
    return;
  }
  Index count =
      std::min(countTableColumns(plan, *hoisted) - group, kernel.width());
  Value place = kernel.advance(start, {group});
  Value old = kernel.loadPart(kernel.vf32, place, count);
  kernel.storePart(kernel.addF(old, kernel.broadcast(cotangent)), place, count);
}

/// The value of a row map that would need a gradient and has none, or null.
static Operation *findWithoutGradient(const KernelPlan &plan, pos::RowsOp rows,
                                      pos::RowOperand operand) {
  Operation *found = nullptr;
  rows.walk([&](Operation *op) {
    if (auto read = dyn_cast<pos::ReadOp>(op)) {
      auto param = cast<BlockArgument>(read.getTensor());
      if (plan.paramWantsGradient[param.getArgNumber()] &&
          isa<FloatType>(read.getType()))
        found = op;
    }
    for (Value value : op->getOperands())
      if (auto hoist = value.getDefiningOp<pos::HoistOp>()) {
        const Hoisted *hoisted = plan.find(hoist, operand);
        if (hoisted && hoisted->wantsGradient &&
            hoisted->form != HoistForm::RowLaneTable)
          found = hoist;
      }
  });
  return found;
}

LogicalResult codegen::verifyRowGradients(const KernelPlan &plan) {
  using pos::RowOperand;
  for (auto [maps, operand] : {std::pair(&plan.queryRows, RowOperand::query),
                               std::pair(&plan.keyRows, RowOperand::key),
                               std::pair(&plan.valueRows, RowOperand::value)})
    for (const RowMap &map : *maps)
      if (Operation *op = findWithoutGradient(plan, map.op, operand))
        return op->emitOpError("is trained and stands behind a row map, but is "
                               "no table over its rows: it has no gradient on "
                               "this target");
  return success();
}
