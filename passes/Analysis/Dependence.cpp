//===- Dependence.cpp - What values of payloads vary with -----------------===//

#include "passes/Analysis/Dependence.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;

AxisSet passes::getAxes(pos::HoistOp hoist) {
  AxisSet axes;
  for (auto axis : hoist.getAxes().getAsRange<pos::AxisAttr>())
    axes |= axis.getValue();
  return axes;
}

bool passes::isKeptOutsideTiles(AxisSet axes) {
  AxisSet rest = axes - AxisSet{Axis::batch, Axis::head};
  return rest.empty() || rest == AxisSet(Axis::offset) ||
         rest == AxisSet(Axis::query) || rest == AxisSet(Axis::key) ||
         AxisSet{Axis::self, Axis::lane}.contains(rest) ||
         rest == AxisSet{Axis::query, Axis::lane} ||
         rest == AxisSet{Axis::key, Axis::lane};
}

AxisSet Dependence::of(Value value) {
  auto known = sets.find(value);
  if (known != sets.end())
    return known->second;
  AxisSet set = compute(value);
  sets.insert({value, set});
  return set;
}

AxisSet Dependence::compute(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto atHeads = dyn_cast<pos::ForHeadsOp>(parent))
      return of(atHeads.getInputs()[argument.getArgNumber()]);
    auto site = dyn_cast<pos::SiteOpInterface>(parent);
    return site ? site.getArgumentAxes() : AxisSet();
  }
  Operation *op = value.getDefiningOp();
  if (auto context = dyn_cast<pos::ContextOpInterface>(op))
    return context.getDependence(hasPositions);
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return getAxes(hoist);

  AxisSet set;
  if (auto payloadOp = dyn_cast<pos::PayloadOpInterface>(op))
    set = payloadOp.getOwnAxes();
  else if (!pos::combinesOperands(op))
    set = {Axis::score, Axis::row};
  for (Value operand : op->getOperands())
    set |= of(operand);
  // An op varies with everything that its regions compute or use.
  op->walk([&](Operation *nested) {
    if (nested == op)
      return;
    for (Value operand : nested->getOperands())
      set |= of(operand);
    for (Value result : nested->getResults())
      set |= of(result);
  });
  // A vector over the heads is not of one head.
  return isa<pos::ForHeadsOp>(op) ? set - Axis::head : set;
}
