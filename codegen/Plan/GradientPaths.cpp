//===- GradientPaths.cpp - Where a gradient would be lost -----------------===//
//
// Follows, forwards through all payloads of an owner, the values that a wanted
// gradient passes through, and the integers that hold bits of them.
//
//===----------------------------------------------------------------------===//

#include "codegen/Plan/GradientPaths.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
class GradientPaths {
public:
  explicit GradientPaths(const KernelPlan &plan) : plan(plan) {}

  /// Follows what the ops of a block compute, in order.
  LogicalResult follow(Block &block);

private:
  LogicalResult followOp(Operation &op);
  bool isActive(BlockArgument argument) const;

  const KernelPlan &plan;
  DenseSet<Value> active; ///< floats that a gradient passes through
  /// Integers that hold bits of such a float, and where they were taken.
  DenseMap<Value, Operation *> bits;
};
} // namespace

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Scores, values of rows, and parameters whose gradients are wanted.
bool GradientPaths::isActive(BlockArgument argument) const {
  if (!isFloat(argument))
    return false;
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto atHeads = dyn_cast<pos::ForHeadsOp>(parent))
    return active.contains(atHeads.getInputs()[argument.getArgNumber()]);
  if (isa<pos::SitesOwnerInterface>(parent))
    return plan.paramWantsGradient[argument.getArgNumber()];
  return isa<pos::SiteOpInterface>(parent);
}

LogicalResult GradientPaths::followOp(Operation &op) {
  if (op.getNumResults() != 1)
    return success();
  Value result = op.getResult(0);
  // Whatever the indices are made of, which element is read is a step.
  if (auto read = dyn_cast<pos::ReadOp>(op)) {
    if (active.contains(read.getTensor()))
      active.insert(result);
    return success();
  }
  for (Value operand : op.getOperands()) {
    if (active.contains(operand)) {
      if (isFloat(result))
        active.insert(result);
      else if (isa<arith::BitcastOp>(op))
        bits[result] = &op;
    }
    Operation *taken = bits.lookup(operand);
    if (!taken)
      continue;
    if (isFloat(result)) {
      InFlightDiagnostic diag = op.emitOpError(
          "has no derivative rule for an integer that holds the bits of a "
          "value with a gradient");
      diag.attachNote(taken->getLoc()) << "the bits are taken here";
      return diag;
    }
    if (!getElementTypeOrSelf(result.getType()).isInteger(1))
      bits[result] = taken;
  }
  return success();
}

LogicalResult GradientPaths::follow(Block &block) {
  for (BlockArgument argument : block.getArguments())
    if (isActive(argument))
      active.insert(argument);
  for (Operation &op : block) {
    for (Region &region : op.getRegions())
      for (Block &nested : region) {
        if (failed(follow(nested)))
          return failure();
        // Hoists, sums and vectors over heads are what their bodies yield.
        if (op.getNumResults() != 1 || nested.empty())
          continue;
        for (Value yielded : nested.back().getOperands()) {
          if (active.contains(yielded))
            active.insert(op.getResult(0));
          if (Operation *taken = bits.lookup(yielded))
            bits[op.getResult(0)] = taken;
        }
      }
    if (failed(followOp(op)))
      return failure();
  }
  return success();
}

LogicalResult codegen::verifyGradientPaths(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  if (!isa<pos::AttentionBackwardOp, pos::MapRowsBackwardOp>(*owner))
    return success();
  return GradientPaths(plan).follow(owner.getSitesRegion().front());
}
