//===- CopyDefinition.cpp - A definition for values of its options --------===//
//
// What a definition uses is found on copies: values that are known are folded,
// a choice with a known condition gives way to what it chooses, and sites that
// are switched off and values that nothing needs are erased. An option matters
// if something still uses it when all others are folded; a parameter is dropped
// if nothing uses it any more once all are.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/CopyDefinition.h"
#include "dialects/Pos/IR/Literals.h"
#include "dialects/Pos/IR/OptionReferences.h"
#include "dialects/Pos/IR/PosFunctions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Analysis/Evaluate.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/FunctionBodies.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using Copy = OwningOpRef<pos::EncodingOp>;

//===----------------------------------------------------------------------===//
// Simplification
//===----------------------------------------------------------------------===//

/// Replaces an op of one scalar result by what it is known to be: a constant,
/// made in f64, or another value. Extents are not known here.
static void foldOp(Operation *op, Evaluator &evaluator) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getNumRegions() != 0 || !OpTrait::hasElementwiseMappableTraits(op) ||
      !op->getResult(0).getType().isIntOrFloat())
    return;
  Value result = op->getResult(0);
  OpBuilder builder(op);
  auto replace = [&](Attribute constant) {
    result.replaceAllUsesWith(pos::createConstant(
        builder, op->getLoc(), result.getType(), cast<TypedAttr>(constant)));
  };
  // A fold in place (operands swapped, say) may make the next one succeed.
  SmallVector<OpFoldResult> folded;
  for (int attempt = 0; attempt < 3 && folded.empty(); ++attempt) {
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      operands.emplace_back();
      matchPattern(operand, m_Constant(&operands.back()));
    }
    if (llvm::all_of(operands, [](Attribute operand) { return !!operand; })) {
      if (Attribute known = evaluator.evaluate(result))
        replace(known);
      return;
    }
    if (failed(op->fold(operands, folded)))
      return;
  }
  if (folded.size() != 1)
    return;
  if (auto value = dyn_cast<Value>(folded.front()))
    result.replaceAllUsesWith(value);
  else if (result.getType().isInteger())
    replace(cast<Attribute>(folded.front()));
}

/// Whether a requirement holds whatever is not known.
static bool isSatisfied(pos::RequireOp require) {
  if (require.getValue() == require.getLimit())
    return true;
  APInt value, limit;
  return matchPattern(require.getValue(), m_ConstantInt(&value)) &&
         matchPattern(require.getLimit(), m_ConstantInt(&limit)) &&
         (require.getRelation() == pos::Relation::at_most ? value.sle(limit)
                                                          : value.sge(limit));
}

/// Whether an option has switched a site off.
static bool isOff(pos::WeightedRowsOp rows) {
  Value condition = rows.getCondition();
  return condition && matchPattern(condition, m_Zero());
}

/// Erases arguments that the functions for the model do not use.
static void dropUnusedArguments(pos::EncodingOp encoding) {
  for (auto function : encoding.getOps<func::FuncOp>()) {
    llvm::BitVector unused(function.getNumArguments());
    for (BlockArgument argument : function.getArguments())
      if (argument.use_empty() &&
          pos::getArgumentRole(function, argument.getArgNumber()))
        unused.set(argument.getArgNumber());
    (void)function.eraseArguments(unused);
  }
}

/// Erases a loss that depends on nothing: it has no gradient.
static void dropConstantLoss(pos::EncodingOp encoding) {
  func::FuncOp loss =
      pos::getFunction(encoding, pos::ModelFunction::AuxiliaryLoss);
  if (loss && loss.getNumArguments() == 0)
    loss.erase();
}

/// Erases helpers, whose bodies stand where they were called.
static void eraseHelpers(pos::EncodingOp encoding) {
  for (auto function :
       llvm::make_early_inc_range(encoding.getOps<func::FuncOp>()))
    if (!llvm::is_contained(pos::kModelFunctions, function.getSymName()))
      function.erase();
}

static void simplify(pos::EncodingOp encoding) {
  Evaluator evaluator(
      encoding, [](Operation *, ArrayRef<Attribute>) { return Attribute(); });
  encoding->walk<WalkOrder::PreOrder>(
      [&](Operation *op) { foldOp(op, evaluator); });
  for (Operation &op : llvm::make_early_inc_range(encoding.getBody().front())) {
    if (auto require = dyn_cast<pos::RequireOp>(op);
        require && isSatisfied(require))
      require.erase();
    else if (auto rows = dyn_cast<pos::WeightedRowsOp>(op); rows && isOff(rows))
      rows.erase();
  }
  // Users stand after what they use: from the end, one walk is enough. What
  // functions use stands in their roles, and in the uses that they hand it to.
  for (auto function : encoding.getOps<func::FuncOp>()) {
    inlineHelpers(function, encoding);
    foldControlFlow(function);
    function->walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
      if (op != function && isOpTriviallyDead(op))
        op->erase();
    });
  }
  eraseHelpers(encoding);
  dropUnusedArguments(encoding);
  dropConstantLoss(encoding);
  auto named = pos::getArgumentNames(encoding);
  named.insert_range(pos::getOptionReferences(encoding));
  encoding->walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
    bool isDead =
        isa<pos::OptionOp, pos::ParamOp, pos::InputOp>(op)
            ? op->use_empty() &&
                  !named.contains(op->getAttrOfType<StringAttr>("name"))
            : op != encoding && isOpTriviallyDead(op);
    if (isDead)
      op->erase();
  });
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// The definition with all options folded but number `kept`.
static Copy foldAllBut(pos::EncodingOp definition, ArrayRef<TypedAttr> values,
                       size_t kept) {
  Copy copy = definition.clone();
  auto options = llvm::to_vector(copy->getOps<pos::OptionOp>());
  for (auto [number, option] : llvm::enumerate(options))
    if (number != kept)
      foldOption(option, values[number]);
  return copy;
}

/// An option's value as a use spells it.
static std::string spellValue(pos::OptionOp option, TypedAttr value) {
  if (std::optional<ArrayAttr> choices = option.getChoices()) {
    uint64_t number = cast<IntegerAttr>(value).getValue().getZExtValue();
    return cast<StringAttr>((*choices)[number]).getValue().str();
  }
  return cast<BoolAttr>(value).getValue() ? "true" : "false";
}

static LogicalResult verifyMatters(pos::EncodingOp definition,
                                   ArrayRef<TypedAttr> values, size_t number,
                                   Location user) {
  Copy copy = foldAllBut(definition, values, number);
  StringRef name =
      (*std::next(definition.getOps<pos::OptionOp>().begin(), number))
          .getName();
  simplify(*copy);
  // A sampler, which draws inputs, sees all options.
  if (!copy->getOps<pos::InputOp>().empty())
    return success();
  for (auto option : copy->getOps<pos::OptionOp>())
    if (option.getName() == name)
      return success();
  // Choices and conditions are what switches an option off.
  std::string beside;
  for (auto [other, value] :
       llvm::zip_equal(definition.getOps<pos::OptionOp>(), values)) {
    if (other.getName() == name ||
        !(other.getChoices() || other.getType().isInteger(1)))
      continue;
    beside += (beside.empty() ? "" : ", ") + other.getName().str() + "=" +
              spellValue(other, value);
  }
  InFlightDiagnostic diag = emitError(user, "option '")
                            << name << "' of @" << definition.getSymName()
                            << " has no effect";
  if (!beside.empty())
    diag << " with " << beside;
  diag << ": leave it out, or change what it depends on";
  return diag;
}

/// Every value that differs from the default has an effect.
static LogicalResult verifyOptions(pos::EncodingOp definition,
                                   ArrayRef<TypedAttr> values, Location user) {
  for (auto [number, option] :
       llvm::enumerate(definition.getOps<pos::OptionOp>())) {
    FailureOr<TypedAttr> byDefault = getOptionValue(option, {}, user);
    if (failed(byDefault))
      return failure();
    if (*byDefault != values[number] &&
        failed(verifyMatters(definition, values, number, user)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static llvm::StringSet<> getParamNames(pos::EncodingOp encoding) {
  llvm::StringSet<> names;
  for (auto param : encoding.getOps<pos::ParamOp>())
    names.insert(param.getName());
  return names;
}

/// Whether the options' values leave a parameter unused that other values need.
static bool dropsParams(pos::EncodingOp definition, pos::EncodingOp special) {
  Copy any = definition.clone();
  simplify(*any);
  llvm::StringSet<> left = getParamNames(special);
  return llvm::any_of(any->getOps<pos::ParamOp>(), [&](pos::ParamOp param) {
    return !left.contains(param.getName());
  });
}

FailureOr<Copy> passes::copyDefinition(pos::EncodingOp definition,
                                       ArrayRef<TypedAttr> values,
                                       Location user) {
  if (failed(verifyOptions(definition, values, user)))
    return failure();
  Copy copy = definition.clone();
  foldOptions(*copy, values);
  bool hasFunctions = !definition.getOps<func::FuncOp>().empty();
  if (values.empty() ||
      (!hasFunctions && definition.getOps<pos::ParamOp>().empty()))
    return copy;
  Copy simple = (*copy).clone();
  simplify(*simple);
  // A model binds what functions take, so that it must be what they use.
  if (hasFunctions || dropsParams(definition, *simple))
    return simple;
  return copy;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void passes::removeModelPart(pos::EncodingOp definition) {
  auto named = pos::getArgumentNames(definition);
  for (Operation &op :
       llvm::make_early_inc_range(definition.getBody().front())) {
    auto param = dyn_cast<pos::ParamOp>(op);
    bool isOfModel =
        param && param->use_empty() && named.contains(param.getNameAttr());
    if (isOfModel || isa<func::FuncOp, pos::InputOp>(op))
      op.erase();
  }
}
