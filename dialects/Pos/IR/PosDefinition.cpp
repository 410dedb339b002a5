//===- PosDefinition.cpp - Verification of definitions --------------------===//
//
// Verifiers here check definitions: that options have a default in their range,
// and that parameters are well described. Functions for the model around
// attention are verified in PosFunctions.cpp.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/OptionReferences.h"
#include "dialects/Pos/IR/PosFunctions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>
#include <functional>

using namespace mlir;
using namespace sextant::pos;

static StringAttr nameOf(Operation &op) {
  if (isa<OptionOp, ParamOp, InputOp>(op))
    return op.getAttrOfType<StringAttr>("name");
  return {};
}

/// Whether a value counts queries by their index: the query's own, or that of a
/// row which a site maps.
static bool isQueryIndex(Value value) {
  auto index = value.getDefiningOp<IndexOp>();
  if (!index || index.getSide() == Side::key)
    return false;
  if (index.getSide() == Side::query)
    return true;
  ArrayAttr operands;
  if (auto rows = index->getParentOfType<RowsOp>())
    operands = rows.getOf();
  else if (auto turn = index->getParentOfType<TurnRowsOp>())
    operands = turn.getOf();
  return operands &&
         llvm::any_of(operands.getAsRange<RowOperandAttr>(),
                      [](RowOperandAttr operand) {
                        return operand.getValue() == RowOperand::query;
                      });
}

/// E1, of a read of a parameter.
static LogicalResult verifyRowsOfQueries(ReadOp read) {
  auto param = read.getTensor().getDefiningOp<ParamOp>();
  if (!param)
    return success();
  for (auto [number, dim, index] :
       llvm::enumerate(param.getDims(), read.getIndices())) {
    auto extent = dim.getDefiningOp<ExtentOp>();
    if (!extent || extent.getExtent() != Extent::query || !isQueryIndex(index))
      continue;
    InFlightDiagnostic diag =
        read.emitOpError("dimension ")
        << number << " of '" << param.getName()
        << "' has one row per query of the call, but the index of a query "
           "counts from the first key: read it at 'pos.tensor_row "
        << stringifySide(index.getDefiningOp<IndexOp>().getSide()) << "' (E1)";
    diag.attachNote(param.getLoc()) << "declared here";
    return diag;
  }
  return success();
}

LogicalResult EncodingOp::verifyRegions() {
  llvm::StringMap<Location> names;
  for (Operation &op : getBody().front()) {
    if (StringAttr name = nameOf(op)) {
      auto [entry, isNew] = names.try_emplace(name.getValue(), op.getLoc());
      if (isNew)
        continue;
      InFlightDiagnostic diag = op.emitOpError("name ")
                                << name << " is taken in this encoding";
      diag.attachNote(entry->second) << "first declared here";
      return diag;
    }
    if (isa<func::FuncOp>(op)) // verified below, all together
      continue;
    bool arithmetic = isMemoryEffectFree(&op) &&
                      (op.hasTrait<OpTrait::ConstantLike>() ||
                       OpTrait::hasElementwiseMappableTraits(&op) ||
                       isa<ExtentOp, ScaleOp>(op));
    if (!isa<SiteOpInterface, RequireOp, RequireSpanOp, RequirePastOp>(op) &&
        !arithmetic)
      return op.emitOpError("may not stand in an encoding");
  }
  WalkResult reads =
      walk([](ReadOp read) { return WalkResult(verifyRowsOfQueries(read)); });
  if (reads.wasInterrupted() || failed(verifyOptionReferences(*this)))
    return failure();
  return verifyFunctions(*this);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Whether an extent takes part in a value.
static bool needsExtent(Value value) {
  Operation *op = value.getDefiningOp();
  return op &&
         (isa<ExtentOp>(op) || llvm::any_of(op->getOperands(), needsExtent));
}

LogicalResult InputOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!getDims().empty() &&
      getDims().size() != static_cast<size_t>(type.getRank()))
    return emitOpError("expected one size per dimension: ")
           << type.getRank() << ", got " << getDims().size();
  if (!getRange().empty() && getRange().size() != 2)
    return emitOpError("expected a range of two values, got ")
           << getRange().size();
  if (llvm::any_of(getOperands(), needsExtent))
    return emitOpError("has sizes and a range that follow from options alone; "
                       "an extent takes part in one");
  return success();
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

bool OptionOp::isInRange(TypedAttr number) {
  double value = 0;
  if (auto real = dyn_cast<FloatAttr>(number))
    value = real.getValueAsDouble();
  else
    value = static_cast<double>(cast<IntegerAttr>(number).getInt());
  auto holds = [&](std::optional<int64_t> limit, auto relation) {
    return !limit || relation(value, static_cast<double>(*limit));
  };
  return std::isfinite(value) && holds(getAbove(), std::greater<>()) &&
         holds(getAtLeast(), std::greater_equal<>()) &&
         holds(getAtMost(), std::less_equal<>()) &&
         holds(getMultipleOf(), [](double of, double factor) {
           return std::fmod(of, factor) == 0;
         });
}

std::string OptionOp::describeRange() {
  SmallVector<std::string> parts;
  auto add = [&](StringRef words, std::optional<int64_t> limit) {
    if (limit)
      parts.push_back((words + " " + Twine(*limit)).str());
  };
  add("above", getAbove());
  add("at least", getAtLeast());
  add("at most", getAtMost());
  add("a multiple of", getMultipleOf());
  return llvm::join(parts, " and ");
}

static LogicalResult verifyRange(OptionOp option) {
  if (option.describeRange().empty())
    return success();
  if (option.getChoices() || option.getType().isInteger(1))
    return option.emitOpError("only a number has a range");
  if (option.getAbove() && option.getAtLeast())
    return option.emitOpError("has two lower limits: above and at_least");
  if (option.getMultipleOf() &&
      (*option.getMultipleOf() < 1 || !option.getType().isInteger(32)))
    return option.emitOpError("multiple_of takes a positive number and is for "
                              "options of type i32");
  return success();
}

LogicalResult OptionOp::verify() {
  if (failed(verifyRange(*this)))
    return failure();
  Type type = getType();
  Attribute value = getValue();
  if (auto choice = dyn_cast<StringAttr>(value)) {
    if (!getChoices() || !llvm::is_contained(getChoices()->getValue(), choice))
      return emitOpError("default ") << choice << " is not among the choices";
    if (!type.isInteger(32))
      return emitOpError("an option with choices has type i32, got ") << type;
    return success();
  }
  if (getChoices())
    return emitOpError("an option with choices has a string as its default");
  Type got = cast<TypedAttr>(value).getType();
  if (got != type)
    return emitOpError("default of type ")
           << got << " for an option of type " << type;
  if (!isInRange(cast<TypedAttr>(value))) {
    std::string range = describeRange();
    return emitOpError("default ")
           << value << " must be " << (range.empty() ? "finite" : range);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (static_cast<int64_t>(getDims().size()) != type.getRank())
    return emitOpError("expected one extent per dimension: ")
           << type.getRank() << ", got " << getDims().size();
  if (getInit() && !getInitBody().empty())
    return emitOpError("expected either a distribution or a region as initial "
                       "value, got both");
  if (auto init = getInit()) {
    unsigned want = *init == Init::constant ? 1 : 2;
    if (getInitArgs().size() != want)
      return emitOpError("initial value ")
             << stringifyInit(*init) << " takes " << want << " number(s), got "
             << getInitArgs().size();
  }
  if (!getInitBody().empty()) {
    Block &body = getInitBody().front();
    if (static_cast<int64_t>(body.getNumArguments()) != type.getRank() ||
        !llvm::all_of(body.getArgumentTypes(),
                      [](Type t) { return t.isInteger(32); }))
      return emitOpError("initial value takes ")
             << type.getRank() << " indices of type i32";
    auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
    if (!yield || yield.getNumOperands() != 1 ||
        yield.getOperand(0).getType() != type.getElementType())
      return emitOpError("initial value must yield (")
             << type.getElementType() << ")";
  }
  if (getFloor() && getCeiling() &&
      getFloor()->convertToDouble() > getCeiling()->convertToDouble())
    return emitOpError("floor is above ceiling");
  if (type.getElementType().isInteger(32) &&
      (getInit() || getFloor() || getCeiling()))
    return emitOpError("an integer parameter is given by the caller: it has "
                       "neither initial value nor bounds");
  return success();
}
