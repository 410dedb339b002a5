//===- Dependence.cpp - What values of payloads depend on -----------------===//
//
// The axes of a value are found by following it backwards, one step at a time:
// an op's own axes and those of what it is computed with. Answers are kept.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace sextant::pos;

//===----------------------------------------------------------------------===//
// One step
//===----------------------------------------------------------------------===//

/// The input of a `pos.for_heads` that an argument of its body is an element
/// of, or null.
static Value getHeadsInput(BlockArgument argument) {
  auto atHeads = dyn_cast<ForHeadsOp>(argument.getOwner()->getParentOp());
  // Verifiers ask before all is verified.
  if (!atHeads || argument.getArgNumber() >= atHeads.getInputs().size())
    return {};
  return atHeads.getInputs()[argument.getArgNumber()];
}

bool sextant::pos::anyPart(Value value, function_ref<bool(Value)> isSuch) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Value input = getHeadsInput(argument);
    return input && isSuch(input);
  }
  WalkResult result = value.getDefiningOp()->walk([&](Operation *op) {
    bool found =
        llvm::any_of(op->getOperands(), isSuch) ||
        (op != value.getDefiningOp() && llvm::any_of(op->getResults(), isSuch));
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

Operation *sextant::pos::findCause(Value value,
                                   function_ref<bool(Value)> isSuch) {
  Operation *cause = value.getDefiningOp();
  llvm::SmallPtrSet<Operation *, 16> seen{cause};
  auto step = [&](Value part) {
    Operation *op = part.getDefiningOp();
    if (!op || !isSuch(part) || !seen.insert(op).second)
      return false;
    cause = op;
    return true;
  };
  while (anyPart(cause->getResult(0), step))
    ;
  return cause;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool Dependence::isMadeOf(Value value, Value part) {
  if (value == part)
    return true;
  auto [entry, isNew] = made.try_emplace({value, part}, false);
  if (!isNew)
    return entry->second;
  bool result =
      anyPart(value, [&](Value other) { return isMadeOf(other, part); });
  return made[{value, part}] = result;
}

bool Dependence::isMadeOf(Value value, ValueRange parts) {
  return llvm::any_of(parts, [&](Value part) { return isMadeOf(value, part); });
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

AxisSet Dependence::of(Value value) {
  // An entry to begin with: a value that is not verified may be made of itself.
  auto [entry, isNew] = sets.try_emplace(value);
  if (!isNew)
    return entry->second;
  AxisSet set = compute(value);
  return sets[value] = set;
}

AxisSet Dependence::of(ValueRange values) {
  AxisSet set;
  for (Value value : values)
    set |= of(value);
  return set;
}

AxisSet Dependence::compute(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (Value input = getHeadsInput(argument))
      return of(input);
    auto site = dyn_cast<SiteOpInterface>(argument.getOwner()->getParentOp());
    return site ? site.getArgumentAxes() : AxisSet();
  }
  Operation *op = value.getDefiningOp();
  if (auto context = dyn_cast<ContextOpInterface>(op))
    return context.getDependence(hasPositions);
  if (auto hoist = dyn_cast<HoistOp>(op))
    return hoist.getAxisSet();

  AxisSet set;
  if (auto payloadOp = dyn_cast<PayloadOpInterface>(op))
    set = payloadOp.getOwnAxes();
  else if (!combinesOperands(op) && !isa<OptionOp, ParamOp, InputOp>(op))
    set = {Axis::score, Axis::row};
  anyPart(value, [&](Value part) {
    set |= of(part);
    return false;
  });
  // A vector over the heads is not of one head.
  return isa<ForHeadsOp>(op) ? set - Axis::head : set;
}
