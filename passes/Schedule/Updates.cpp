//===- Updates.cpp - Names and updates of a function's arguments ----------===//
//
// An argument and a result belong together if they carry the same mark, such as
// `nn.parameter = "w"`.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Updates.h"
#include "dialects/Nn/IR/Nn.h"
#include "passes/Schedule/DenseCalls.h"
#include "passes/Schedule/Memory.h"

using namespace mlir;
using namespace sextant;

static constexpr StringLiteral kUpdatedAttr = "exec.updated";
static constexpr StringLiteral kNameAttr = "exec.name";

/// The marks that an argument and a result may share.
static constexpr StringLiteral kStateMarks[] = {
    nn::kParameterAttr, nn::kFirstMomentAttr, nn::kSecondMomentAttr,
    nn::kStepAttr};

static Attribute getMark(DictionaryAttr attributes, StringRef mark) {
  return attributes ? attributes.get(mark) : Attribute();
}

/// The argument with the same mark as a result, or null.
static BlockArgument findUpdated(func::FuncOp function, unsigned result) {
  DictionaryAttr given = function.getResultAttrDict(result);
  for (StringRef mark : kStateMarks) {
    Attribute value = getMark(given, mark);
    if (!value)
      continue;
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), mark) == value)
        return argument;
  }
  return {};
}

SmallVector<BlockArgument> passes::findUpdatedArguments(func::FuncOp function) {
  SmallVector<BlockArgument> updated;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (BlockArgument argument = findUpdated(function, i))
      updated.push_back(argument);
  return updated;
}

/// The value whose memory this one is written over, step by step.
static Value getWritten(Value value,
                        const llvm::DenseSet<OpOperand *> &overwritable) {
  while (auto result = dyn_cast<OpResult>(value)) {
    OpOperand *operand = passes::getOverwritten(result);
    if (!operand || !overwritable.contains(operand))
      break;
    value = operand->get();
  }
  return value;
}

/// The same, of which this one may be a view.
static Value getOwner(Value value,
                      const llvm::DenseSet<OpOperand *> &overwritable) {
  Value owner = getWritten(passes::getMemoryOwner(value), overwritable);
  return owner == value ? value : getOwner(owner, overwritable);
}

void passes::copySharedValues(func::FuncOp function,
                              const llvm::DenseSet<OpOperand *> &overwritable) {
  SmallVector<BlockArgument> updated = findUpdatedArguments(function);
  Operation *terminator = function.front().getTerminator();
  OpBuilder builder(terminator);
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value value = operand.get();
    auto owner = dyn_cast<BlockArgument>(getOwner(value, overwritable));
    // A new value that is in the memory of its own argument stays as it is.
    if (!owner || !llvm::is_contained(updated, owner) ||
        getWritten(value, overwritable) ==
            findUpdated(function, operand.getOperandNumber()))
      continue;
    nn::AtenArguments call(builder);
    call.tensor(value);
    operand.set(createDenseValue(builder, value.getLoc(), "aten::clone",
                                 call.get(), value.getType()));
  }
}

void passes::writeUpdatesIntoArguments(func::FuncOp function) {
  Operation *terminator = function.front().getTerminator();
  OpBuilder builder(terminator);
  llvm::BitVector dropped(function.getNumResults());
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    BlockArgument argument = findUpdated(function, i);
    if (!argument)
      continue;
    Value value = terminator->getOperand(i);
    if (value != argument) {
      nn::AtenArguments call(builder);
      call.tensor(argument);
      call.tensor(value);
      call.boolean(false);
      createDense(builder, value.getLoc(), "aten::copy_", call.get(), {});
    }
    dropped.set(i);
    function.setArgAttr(argument.getArgNumber(), kUpdatedAttr,
                        builder.getUnitAttr());
  }
  terminator->eraseOperands(dropped);
  (void)function.eraseResults(dropped);
}

static std::string nameOf(DictionaryAttr attributes) {
  auto text = [&](StringRef mark) {
    return cast<StringAttr>(getMark(attributes, mark)).getValue();
  };
  if (getMark(attributes, nn::kParameterAttr))
    return text(nn::kParameterAttr).str();
  if (getMark(attributes, nn::kGradientAttr))
    return (text(nn::kGradientAttr) + ":gradient").str();
  if (getMark(attributes, nn::kFirstMomentAttr))
    return (text(nn::kFirstMomentAttr) + ":first_moment").str();
  if (getMark(attributes, nn::kSecondMomentAttr))
    return (text(nn::kSecondMomentAttr) + ":second_moment").str();
  if (getMark(attributes, nn::kRateAttr))
    return "learning_rate";
  if (getMark(attributes, nn::kStepAttr))
    return "step";
  if (getMark(attributes, nn::kNormAttr))
    return "gradient_norm";
  return "";
}

void passes::nameMarkedValues(func::FuncOp function) {
  auto *context = function.getContext();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (std::string name = nameOf(function.getArgAttrDict(i)); !name.empty())
      function.setArgAttr(i, kNameAttr, StringAttr::get(context, name));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (std::string name = nameOf(function.getResultAttrDict(i)); !name.empty())
      function.setResultAttr(i, kNameAttr, StringAttr::get(context, name));
}
