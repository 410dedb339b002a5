//===- FoldOptions.cpp - Values of an encoding's options ------------------===//
//
// A value that a use gives is converted to the type of the option; one that the
// type does not hold is an error that shows what it would become.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/FoldOptions.h"
#include "dialects/Pos/IR/Literals.h"
#include "dialects/Pos/IR/OptionReferences.h"
#include "dialects/Pos/IR/PosFunctions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Encoding/NearestNames.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// An error at the user that begins with the option and its encoding.
static InFlightDiagnostic emitOptionError(pos::OptionOp option, Location user) {
  return emitError(user, "option '")
         << option.getName() << "' of @"
         << option->getParentOfType<pos::EncodingOp>().getSymName() << " ";
}

/// The place of `name` among the choices of an option.
static FailureOr<TypedAttr> chooseByName(pos::OptionOp option, StringAttr name,
                                         Location user) {
  Builder builder(option.getContext());
  SmallVector<std::string> choices;
  for (auto [i, choice] :
       llvm::enumerate(option.getChoicesAttr().getAsRange<StringAttr>())) {
    if (choice == name)
      return TypedAttr(builder.getI32IntegerAttr(i));
    choices.push_back(choice.str());
  }
  return emitOptionError(option, user)
         << "has no choice " << name << nearestNames(name, choices);
}

/// Converts a number where its value is kept, or gives null.
static TypedAttr convertNumber(Attribute value, Type type) {
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    APInt number = integer.getValue();
    if (!integer.getType().isSignlessIntOrIndex() || number.getBitWidth() > 64)
      return {};
    if (type.isInteger(1))
      return integer.getType().isInteger(1) ? integer : TypedAttr();
    if (integer.getType().isInteger(1))
      return {};
    if (type.isInteger(32))
      return number.isSignedIntN(32)
                 ? TypedAttr(IntegerAttr::get(type, number.sextOrTrunc(32)))
                 : TypedAttr();
    return FloatAttr::get(type, static_cast<double>(number.getSExtValue()));
  }
  auto real = dyn_cast<FloatAttr>(value);
  if (!real || !isa<FloatType>(type))
    return {};
  return FloatAttr::get(type, real.getValueAsDouble());
}

/// A number without its type, and what the option would make of it if that is
/// another: -1; 1e+39 (inf in f32).
static std::string spellNumber(Attribute given, TypedAttr converted) {
  auto spell = [](double number) {
    SmallString<16> text;
    llvm::raw_svector_ostream(text) << llvm::format("%g", number);
    return text.str().str();
  };
  auto number = dyn_cast<FloatAttr>(given);
  if (!number)
    return std::to_string(cast<IntegerAttr>(given).getInt());
  std::string text = spell(number.getValueAsDouble());
  std::string kept = spell(cast<FloatAttr>(converted).getValueAsDouble());
  return text == kept ? text : text + " (" + kept + " in f32)";
}

/// The number of f64 that an option of f32 is given where f32 does not hold it,
/// else what it was converted to.
static TypedAttr keepNumber(TypedAttr exact, Attribute given,
                            TypedAttr converted) {
  auto rounded = dyn_cast<FloatAttr>(converted);
  if (!rounded)
    return converted;
  double number = rounded.getValueAsDouble();
  if (auto kept = dyn_cast_or_null<FloatAttr>(exact))
    number = kept.getValueAsDouble();
  else if (auto real = dyn_cast<FloatAttr>(given))
    number = real.getValueAsDouble();
  else
    number =
        static_cast<double>(cast<IntegerAttr>(given).getValue().getSExtValue());
  if (number == rounded.getValueAsDouble())
    return converted;
  return FloatAttr::get(Float64Type::get(converted.getContext()), number);
}

FailureOr<TypedAttr> passes::getOptionValue(pos::OptionOp option,
                                            Attribute given, Location user) {
  Attribute value = given ? given : Attribute(option.getValue());
  if (option.getChoices()) {
    if (auto name = dyn_cast<StringAttr>(value))
      return chooseByName(option, name, user);
    return emitOptionError(option, user)
           << "takes the name of a choice, got " << value;
  }
  TypedAttr converted = convertNumber(value, option.getType());
  if (!converted)
    return emitOptionError(option, user)
           << "takes " << option.getType() << ", got " << value;
  if (!option.isInRange(converted)) {
    auto real = dyn_cast<FloatAttr>(converted);
    bool isFinite = !real || real.getValue().isFinite();
    return emitOptionError(option, user)
           << "is " << spellNumber(value, converted) << ", but must be "
           << (isFinite ? option.describeRange() : "finite");
  }
  return keepNumber(given ? nullptr : pos::getExact(option), value, converted);
}

FailureOr<SmallVector<TypedAttr>>
passes::getOptionValues(pos::EncodingOp encoding, DictionaryAttr given,
                        Location user) {
  SmallVector<TypedAttr> values;
  SmallVector<std::string> names;
  for (auto option : encoding.getOps<pos::OptionOp>()) {
    Attribute value = given ? given.get(option.getName()) : Attribute();
    FailureOr<TypedAttr> constant = getOptionValue(option, value, user);
    if (failed(constant))
      return failure();
    values.push_back(*constant);
    names.push_back(option.getName().str());
  }
  if (given)
    for (NamedAttribute entry : given)
      if (!llvm::is_contained(names, entry.getName().getValue()))
        return emitError(user, "encoding @")
               << encoding.getSymName() << " has no option '"
               << entry.getName().getValue() << "'"
               << nearestNames(entry.getName(), names);
  return values;
}

/// Replaces the arguments of a function that stand for an option.
static void foldArguments(func::FuncOp function, pos::OptionOp option,
                          TypedAttr value) {
  OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
  llvm::BitVector folded(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto role = pos::getArgumentRole(function, number);
    if (!role || role->kind != pos::RoleKind::Named ||
        role->name != option.getNameAttr())
      continue;
    argument.replaceAllUsesWith(
        pos::createConstant(builder, option.getLoc(), option.getType(), value));
    folded.set(number);
  }
  (void)function.eraseArguments(folded);
}

/// The value of an option as a use gives it: a choice by its name.
static Attribute getGivenValue(pos::OptionOp option, TypedAttr value) {
  std::optional<ArrayAttr> choices = option.getChoices();
  return choices ? (*choices)[cast<IntegerAttr>(value).getInt()]
                 : Attribute(value);
}

void passes::foldOption(pos::OptionOp option, TypedAttr value) {
  auto encoding = option->getParentOfType<pos::EncodingOp>();
  pos::replaceOptionReferences(encoding, option.getNameAttr(),
                               getGivenValue(option, value));
  for (auto function : encoding.getOps<func::FuncOp>())
    foldArguments(function, option, value);
  OpBuilder builder(option);
  option.replaceAllUsesWith(
      pos::createConstant(builder, option.getLoc(), option.getType(), value));
  option.erase();
}

void passes::foldOptions(pos::EncodingOp encoding, ArrayRef<TypedAttr> values) {
  auto options = llvm::to_vector(encoding.getOps<pos::OptionOp>());
  for (auto [option, value] : llvm::zip_equal(options, values))
    foldOption(option, value);
}
