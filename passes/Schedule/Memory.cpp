//===- Memory.cpp - Which values share memory -----------------------------===//
//
// Views are the results of ops that say so (AtenOpInterface), of splits, of
// casts, of checks and of `exec.view`; they are followed through the uses of a
// value.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Memory.h"
#include "dialects/Exec/IR/Exec.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;

Value passes::getViewSource(Operation *op) {
  if (auto aten = dyn_cast<nn::AtenOpInterface>(op))
    return aten.isView() ? op->getOperand(0) : Value();
  if (auto require = dyn_cast<nn::RequireOp>(op))
    return require.getInput();
  if (isa<nn::SplitOp, tensor::CastOp, exec::ViewOp>(op))
    return op->getOperand(0);
  return {};
}

Value passes::getMemoryOwner(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    Value source = getViewSource(maker);
    if (!source)
      break;
    value = source;
  }
  return value;
}

OpOperand *passes::getOverwritten(OpResult result) {
  Operation *op = result.getOwner();
  if (auto aten = dyn_cast<nn::AtenOpInterface>(op)) {
    nn::InPlaceForm form = aten.getInPlaceForm();
    if (form.name.empty() || result.getResultNumber() != 0)
      return nullptr;
    OpOperand &target = op->getOpOperand(form.operand);
    return target.get().getType() == result.getType() ? &target : nullptr;
  }
  if (isa<nn::ScaleOp, nn::ClampOp>(op))
    return &op->getOpOperand(0);
  auto adamw = dyn_cast<nn::AdamWOp>(op);
  if (!adamw)
    return nullptr;
  unsigned count = adamw.getParams().size(), number = result.getResultNumber();
  MutableOperandRange groups[] = {adamw.getParamsMutable(),
                                  adamw.getFirstMomentsMutable(),
                                  adamw.getSecondMomentsMutable()};
  return &groups[number / count][number % count];
}

/// Elementwise ops make their result in the order of operands of its shape, of
/// whatever type.
bool passes::mayBeStrided(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker)
    return false;
  bool isReshape = isa<nn::ReshapeOp>(maker);
  if (!isReshape && getViewSource(maker))
    return true;
  auto hasShape = [&](Value operand) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    return type && type.getShape() ==
                       cast<RankedTensorType>(value.getType()).getShape();
  };
  return llvm::any_of(maker->getOperands(), [&](Value operand) {
    return (isReshape || hasShape(operand)) && mayBeStrided(operand);
  });
}

SmallVector<Value> passes::collectViews(Value value) {
  SmallVector<Value> views{value};
  for (size_t i = 0; i < views.size(); ++i)
    for (Operation *user : views[i].getUsers())
      if (getViewSource(user) == views[i])
        llvm::append_range(views, user->getResults());
  return views;
}

/// Whether the value's memory is read or given back after `op`; reading a size
/// does not count.
static bool isUsedAfter(ArrayRef<Value> views, Operation *op) {
  for (Value view : views)
    for (Operation *user : view.getUsers())
      if (op->isBeforeInBlock(user) && !isa<tensor::DimOp>(user))
        return true;
  return false;
}

/// Whether the value has memory of its own that this block may write.
static bool isOwned(Value value, ArrayRef<BlockArgument> updated) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return llvm::is_contained(updated, argument);
  Operation *maker = value.getDefiningOp();
  // Constants are data of the artifact, splats may become constants.
  return !maker->hasTrait<OpTrait::ConstantLike>() &&
         !isa<tensor::SplatOp>(maker) && !passes::getViewSource(maker);
}

static bool mayOverwrite(OpOperand &operand, ArrayRef<BlockArgument> updated) {
  if (!isa<RankedTensorType>(operand.get().getType()) ||
      !isOwned(operand.get(), updated))
    return false;
  Operation *owner = operand.getOwner();
  SmallVector<Value> views = passes::collectViews(operand.get());
  if (isUsedAfter(views, owner))
    return false;
  return llvm::none_of(owner->getOpOperands(), [&](OpOperand &other) {
    return &other != &operand && llvm::is_contained(views, other.get());
  });
}

llvm::DenseSet<OpOperand *>
passes::findOverwritable(Block &block, ArrayRef<BlockArgument> updated) {
  llvm::DenseSet<OpOperand *> operands;
  for (Operation &op : block.without_terminator())
    for (OpOperand &operand : op.getOpOperands())
      if (mayOverwrite(operand, updated))
        operands.insert(&operand);
  return operands;
}
