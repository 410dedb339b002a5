//===- Slices.cpp - What a value of a payload is computed with ------------===//
//
// Slices are found by walking the ops of a payload's block backwards, so that
// their order is that of the block.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/Slices.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

SmallVector<Value> passes::getPayloadOperands(Operation *op, Block &payload) {
  llvm::SmallSetVector<Value, 4> values;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (operand.getParentBlock() == &payload && operand.getDefiningOp())
        values.insert(operand);
  });
  return values.takeVector();
}

PayloadRoots passes::findRoots(Block &payload,
                               function_ref<bool(Value)> isRoot) {
  PayloadRoots roots;
  roots.inPlace.insert(payload.getTerminator());
  for (Operation &op : llvm::reverse(payload)) {
    if (!roots.inPlace.contains(&op))
      continue;
    for (Value value : getPayloadOperands(&op, payload)) {
      if (isRoot(value))
        roots.values.insert(value);
      else
        roots.inPlace.insert(value.getDefiningOp());
    }
  }
  return roots;
}

void PayloadRoots::replace(Value root, Value made, Block &payload) const {
  root.replaceUsesWithIf(made, [&](OpOperand &use) {
    return inPlace.contains(payload.findAncestorOpInBlock(*use.getOwner()));
  });
}

SmallVector<Operation *> passes::getSlice(Value root, Block &payload,
                                          ArrayRef<Value> stop) {
  llvm::SmallPtrSet<Operation *, 16> wanted{root.getDefiningOp()};
  for (Operation &op : llvm::reverse(payload))
    if (wanted.contains(&op))
      for (Value operand : getPayloadOperands(&op, payload))
        if (!llvm::is_contained(stop, operand))
          wanted.insert(operand.getDefiningOp());
  SmallVector<Operation *> slice;
  for (Operation &op : payload)
    if (wanted.contains(&op))
      slice.push_back(&op);
  return slice;
}

void passes::cloneSlice(OpBuilder &builder, ArrayRef<Operation *> slice,
                        pos::SiteOpInterface site, IRMapping &mapping) {
  for (Operation *op : slice) {
    op->walk([&](Operation *user) {
      for (Value operand : user->getOperands()) {
        Operation *constant = operand.getDefiningOp();
        if (constant && constant->hasTrait<OpTrait::ConstantLike>() &&
            constant->getBlock() == site->getBlock() &&
            !mapping.contains(operand))
          builder.clone(*constant, mapping);
      }
    });
    builder.clone(*op, mapping);
  }
}

void passes::moveScalarsIn(pos::ForHeadsOp atHeads, Block &payload) {
  Block &body = atHeads.getBody().front();
  llvm::SmallSetVector<Value, 8> used;
  for (Operation &op : body)
    for (Value value : getPayloadOperands(&op, payload))
      used.insert(value);
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  IRMapping mapping;
  for (Value value : used) {
    for (Operation *op : getSlice(value, payload, {}))
      if (!mapping.contains(op->getResult(0)))
        builder.clone(*op, mapping);
    value.replaceUsesWithIf(mapping.lookup(value), [&](OpOperand &use) {
      return atHeads.getBody().isAncestor(use.getOwner()->getParentRegion());
    });
  }
}

unsigned passes::moveInvariantsOut(pos::SumOp sum) {
  Block &body = sum.getBody().front();
  unsigned moved = 0;
  auto inside = [&](Value value) { return value.getParentBlock() == &body; };
  auto isConstant = [](Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->hasTrait<OpTrait::ConstantLike>();
  };
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (op.hasTrait<OpTrait::ConstantLike>() || !isPure(&op) ||
        op.getNumRegions() != 0)
      continue;
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return inside(operand) && !isConstant(operand);
        }))
      continue;
    OpBuilder builder(sum);
    for (OpOperand &operand : op.getOpOperands())
      if (inside(operand.get()))
        operand.set(
            builder.clone(*operand.get().getDefiningOp())->getResult(0));
    op.moveBefore(sum);
    ++moved;
  }
  return moved;
}

void passes::eraseDead(Block &block) {
  // The terminator is not dead.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}
