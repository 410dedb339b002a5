//===- Literals.cpp - Numbers that f32 does not hold ----------------------===//
//
// The number as it was written stands in an attribute of the constant, which
// evaluation in f64 reads.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;

static constexpr llvm::StringLiteral exactName = "pos.exact";

static bool isSameNumber(TypedAttr value, TypedAttr exact) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble() ==
           cast<FloatAttr>(exact).getValueAsDouble();
  auto a = cast<DenseElementsAttr>(value).getValues<APFloat>();
  auto b = cast<DenseElementsAttr>(exact).getValues<APFloat>();
  return llvm::all_of(llvm::zip_equal(a, b), [](auto pair) {
    return std::get<0>(pair).convertToDouble() ==
           std::get<1>(pair).convertToDouble();
  });
}

void pos::keepExact(Operation *op, TypedAttr value, TypedAttr exact) {
  if (!isSameNumber(value, exact))
    op->setDiscardableAttr(exactName, exact);
}

TypedAttr pos::getExact(Operation *op) {
  return dyn_cast_or_null<TypedAttr>(op->getDiscardableAttr(exactName));
}

Value pos::createConstant(OpBuilder &builder, Location loc, Type type,
                          TypedAttr value) {
  auto exact = dyn_cast<FloatAttr>(value);
  if (!exact || exact.getType() == type)
    return arith::ConstantOp::create(builder, loc, value);
  auto rounded = FloatAttr::get(type, exact.getValueAsDouble());
  auto constant = arith::ConstantOp::create(builder, loc, rounded);
  keepExact(constant, rounded, exact);
  return constant;
}
