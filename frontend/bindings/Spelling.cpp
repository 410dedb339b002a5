//===- Spelling.cpp - Arithmetic of definitions as people write it --------===//
//
// An expression is written with as few parentheses as its operators need, by
// how tightly each of them binds.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/Spelling.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;

namespace {
/// How tightly a text holds together; what is looser than its surroundings
/// stands in parentheses.
enum class Binding { Choice, Sum, Product, Atom };

/// The text of an expression, and how tightly its outermost operator binds.
struct Spelled {
  std::string text;
  Binding binding = Binding::Atom;
};
} // namespace

static Spelled spellValue(Value value);

/// `value` as an operand of what binds as `outer`.
static std::string spellOperand(Value value, Binding outer) {
  Spelled spelled = spellValue(value);
  return spelled.binding < outer ? "(" + spelled.text + ")" : spelled.text;
}

/// Operators of one strength are read from left to right.
static Spelled spellBinary(Operation *op, StringRef sign, Binding binding) {
  Binding right = Binding(int(binding) + 1);
  return {spellOperand(op->getOperand(0), binding) + (" " + sign + " ").str() +
              spellOperand(op->getOperand(1), right),
          binding};
}

static Spelled spellCall(Operation *op, StringRef function) {
  std::string text = function.str() + "(";
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    text += (number ? ", " : "") + spellValue(operand).text;
  return {text + ")"};
}

static Spelled spellConstant(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return {std::to_string(integer.getInt())};
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format("%g", cast<FloatAttr>(value).getValueAsDouble());
  return {text};
}

static Spelled spellValue(Value value) {
  Operation *op = value.getDefiningOp();
  Attribute constant;
  if (op && matchPattern(value, m_Constant(&constant)) &&
      isa<IntegerAttr, FloatAttr>(constant))
    return spellConstant(constant);
  Spelled unknown{"..."};
  if (!op)
    return unknown;
  return llvm::TypeSwitch<Operation *, Spelled>(op)
      .Case(
          [](pos::OptionOp option) { return Spelled{option.getName().str()}; })
      .Case([](pos::ExtentOp extent) {
        return Spelled{pos::stringifyExtent(extent.getExtent()).str()};
      })
      .Case([](arith::SelectOp select) {
        return Spelled{
            spellOperand(select.getTrueValue(), Binding::Choice) + " or " +
                spellOperand(select.getFalseValue(), Binding::Choice),
            Binding::Choice};
      })
      .Case<arith::AddIOp, arith::AddFOp>(
          [](Operation *sum) { return spellBinary(sum, "+", Binding::Sum); })
      .Case<arith::SubIOp, arith::SubFOp>([](Operation *difference) {
        return spellBinary(difference, "-", Binding::Sum);
      })
      .Case<arith::MulIOp, arith::MulFOp>([](Operation *product) {
        return spellBinary(product, "*", Binding::Product);
      })
      .Case<arith::DivFOp>([](Operation *quotient) {
        return spellBinary(quotient, "/", Binding::Product);
      })
      .Case<arith::DivSIOp, arith::FloorDivSIOp>([](Operation *quotient) {
        return spellBinary(quotient, "//", Binding::Product);
      })
      .Case([](arith::NegFOp negative) {
        return Spelled{
            "-" + spellOperand(negative.getOperand(), Binding::Product),
            Binding::Sum};
      })
      .Case([](arith::SIToFPOp number) { return spellValue(number.getIn()); })
      .Case([](arith::FPToSIOp whole) {
        auto quotient = whole.getIn().getDefiningOp<arith::DivFOp>();
        return quotient ? spellBinary(quotient, "//", Binding::Product)
                        : spellCall(whole, "int");
      })
      .Case<arith::MaxSIOp, arith::MaximumFOp>(
          [](Operation *max) { return spellCall(max, "max"); })
      .Case<arith::MinSIOp, arith::MinimumFOp>(
          [](Operation *min) { return spellCall(min, "min"); })
      .Case([](math::SqrtOp root) { return spellCall(root, "sqrt"); })
      .Default(unknown);
}

std::string bindings::spell(Value value) { return spellValue(value).text; }
