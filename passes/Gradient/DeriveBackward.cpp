//===- DeriveBackward.cpp - Gradient and training functions of losses -----===//
//
// For each loss the pass clones the function, appends the gradients of its
// trained parameters (ReverseMode.h) and, where an optimizer is named, the
// update (TrainingStep.h).
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Gradient/Gradient.h"
#include "passes/Gradient/ReverseMode.h"
#include "passes/Gradient/TrainingStep.h"

namespace sextant::passes {
#define GEN_PASS_DEF_DERIVEBACKWARD
#include "passes/Gradient/Gradient.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using Parameters = llvm::StringMap<nn::ParameterOp>;

//===----------------------------------------------------------------------===//
// What a loss must be
//===----------------------------------------------------------------------===//

static FailureOr<Parameters> collectParameters(ModuleOp module) {
  Parameters parameters;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto [entry, isNew] =
        parameters.try_emplace(parameter.getName(), parameter);
    if (isNew)
      continue;
    InFlightDiagnostic diag = parameter.emitOpError("repeats the name '")
                              << parameter.getName() << "'";
    diag.attachNote(entry->second.getLoc()) << "first used here";
    return diag;
  }
  return parameters;
}

static FailureOr<SmallVector<TrainedParameter>>
findTrained(func::FuncOp loss, const Parameters &parameters) {
  SmallVector<TrainedParameter> trained;
  for (BlockArgument argument : loss.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto name = loss.getArgAttrOfType<StringAttr>(number, nn::kParameterAttr);
    if (!name)
      continue;
    auto found = parameters.find(name);
    if (found == parameters.end())
      return loss.emitOpError("argument ")
             << number << " names the parameter '" << name.getValue()
             << "', which the module does not define";
    nn::ParameterOp definition = found->second;
    if (definition.getType() != argument.getType())
      return loss.emitOpError("argument ")
             << number << " must have the type of parameter '"
             << name.getValue() << "', " << definition.getType() << ", got "
             << argument.getType();
    if (definition.getFrozen())
      continue;
    // Each would get an update of its own.
    if (llvm::any_of(trained, [&](const TrainedParameter &entry) {
          return entry.definition == definition;
        }))
      return loss.emitOpError("argument ")
             << number << " names the parameter '" << name.getValue()
             << "' again: one argument stands for it, in all its uses";
    trained.push_back({number, definition});
  }
  if (trained.empty())
    return loss.emitOpError("has no trained parameter");
  return trained;
}

static LogicalResult verifyLoss(func::FuncOp loss) {
  if (loss.isExternal() || !loss.getBody().hasOneBlock())
    return loss.emitOpError("a loss must have a body of one block");
  Type type = loss.getNumResults() ? loss.getResultTypes().front() : Type();
  auto scalar = dyn_cast_or_null<RankedTensorType>(type);
  if (!scalar || scalar.getRank() != 0 ||
      !isa<FloatType>(scalar.getElementType()))
    return loss.emitOpError("first result of a loss must be a scalar tensor, "
                            "got ")
           << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Functions that are added
//===----------------------------------------------------------------------===//

/// A copy of the loss under another name, after it in the module.
static FailureOr<func::FuncOp> cloneLoss(func::FuncOp loss, StringAttr name,
                                         SymbolTable &symbols) {
  if (Operation *other = symbols.lookup(name)) {
    InFlightDiagnostic diag = loss.emitOpError("cannot add '@")
                              << name.getValue() << "'";
    diag.attachNote(other->getLoc()) << "the name is taken here";
    return diag;
  }
  auto clone = cast<func::FuncOp>(loss->clone());
  clone.setSymNameAttr(name);
  clone->removeAttr(nn::kGradientsAttr);
  clone->removeAttr(nn::kOptimizerAttr);
  symbols.insert(clone, std::next(loss->getIterator()));
  return clone;
}

static SmallVector<Value> argumentsOf(func::FuncOp function,
                                      ArrayRef<TrainedParameter> trained) {
  return llvm::map_to_vector(trained, [&](TrainedParameter entry) -> Value {
    return function.getArgument(entry.argument);
  });
}

static FailureOr<SmallVector<Value>>
differentiate(func::FuncOp function, ArrayRef<TrainedParameter> trained,
              unsigned &count) {
  Block &block = function.front();
  return appendGradients(block, block.getTerminator()->getOperand(0),
                         argumentsOf(function, trained), count);
}

/// (parameters, gradients) -> ()
static LogicalResult addUpdate(func::FuncOp loss, nn::AdamWAttr optimizer,
                               ArrayRef<TrainedParameter> trained,
                               SymbolTable &symbols) {
  StringAttr name = optimizer.getUpdate().getAttr();
  if (Operation *other = symbols.lookup(name)) {
    InFlightDiagnostic diag = loss.emitOpError("cannot add '@")
                              << name.getValue() << "'";
    diag.attachNote(other->getLoc()) << "the name is taken here";
    return diag;
  }
  OpBuilder builder(loss.getContext());
  Location loc = loss.getLoc();
  SmallVector<Type> types =
      llvm::map_to_vector(trained, [&](TrainedParameter entry) -> Type {
        return loss.getArgument(entry.argument).getType();
      });
  size_t count = types.size();
  SmallVector<Type> inputs(types);
  llvm::append_range(inputs, types);
  auto update = func::FuncOp::create(builder, loc, name.getValue(),
                                     builder.getFunctionType(inputs, {}));
  for (auto [i, entry] : llvm::enumerate(trained)) {
    NamedAttribute param = markOf(nn::kParameterAttr, entry.definition);
    NamedAttribute gradient = markOf(nn::kGradientAttr, entry.definition);
    update.setArgAttr(i, param.getName(), param.getValue());
    update.setArgAttr(count + i, gradient.getName(), gradient.getValue());
  }
  builder.setInsertionPointToStart(update.addEntryBlock());
  func::ReturnOp::create(builder, loc);
  symbols.insert(update, std::next(loss->getIterator()));
  // Copied: arguments are added to the function.
  SmallVector<Value> arguments(update.getArguments());
  ValueRange all(arguments);
  appendUpdate(update, optimizer, trained, all.take_front(count),
               all.drop_front(count));
  return success();
}

namespace {
/// Adds the functions of one loss after the other.
class DeriveBackward : public passes::impl::DeriveBackwardBase<DeriveBackward> {
public:
  using DeriveBackwardBase::DeriveBackwardBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> losses;
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(nn::kGradientsAttr))
        losses.push_back(function);
    FailureOr<Parameters> parameters = collectParameters(module);
    if (failed(parameters))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (func::FuncOp loss : losses) {
      if (failed(derive(loss, *parameters, symbols)))
        return signalPassFailure();
      ++numLosses;
    }
  }

private:
  LogicalResult derive(func::FuncOp loss, const Parameters &parameters,
                       SymbolTable &symbols) {
    auto name = loss->getAttrOfType<FlatSymbolRefAttr>(nn::kGradientsAttr);
    if (!name)
      return loss.emitOpError("attribute '")
             << nn::kGradientsAttr << "' must name a function";
    if (failed(verifyLoss(loss)))
      return failure();
    FailureOr<SmallVector<TrainedParameter>> trained =
        findTrained(loss, parameters);
    if (failed(trained))
      return failure();
    auto optimizer = loss->getAttrOfType<nn::AdamWAttr>(nn::kOptimizerAttr);
    if (optimizer &&
        (failed(verifyGroups(loss, optimizer, *trained)) ||
         failed(addTrainStep(loss, optimizer, *trained, symbols)) ||
         failed(addUpdate(loss, optimizer, *trained, symbols))))
      return failure();
    return addGradients(loss, name.getAttr(), *trained, symbols);
  }

  LogicalResult addGradients(func::FuncOp loss, StringAttr name,
                             ArrayRef<TrainedParameter> trained,
                             SymbolTable &symbols) {
    FailureOr<func::FuncOp> function = cloneLoss(loss, name, symbols);
    if (failed(function))
      return failure();
    unsigned derived = 0;
    FailureOr<SmallVector<Value>> gradients =
        differentiate(*function, trained, derived);
    if (failed(gradients))
      return failure();
    numDerived += derived;
    remark::passed(loss.getLoc(),
                   remark::RemarkOpts::name("derived").category(getArgument()))
        << remark::metric("Ops", derived)
        << remark::metric("Gradients", gradients->size());
    SmallVector<NamedAttribute> marks =
        llvm::map_to_vector(trained, [](TrainedParameter entry) {
          return markOf(nn::kGradientAttr, entry.definition);
        });
    appendResults(*function, *gradients, marks);
    return success();
  }

  LogicalResult addTrainStep(func::FuncOp loss, nn::AdamWAttr optimizer,
                             ArrayRef<TrainedParameter> trained,
                             SymbolTable &symbols) {
    FailureOr<func::FuncOp> function =
        cloneLoss(loss, optimizer.getTrainStep().getAttr(), symbols);
    if (failed(function))
      return failure();
    unsigned derived = 0;
    FailureOr<SmallVector<Value>> gradients =
        differentiate(*function, trained, derived);
    if (failed(gradients))
      return failure();
    numDerived += derived;
    appendUpdate(*function, optimizer, trained, argumentsOf(*function, trained),
                 *gradients);
    return success();
  }
};
} // namespace
