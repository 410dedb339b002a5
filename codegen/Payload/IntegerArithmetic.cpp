//===- IntegerArithmetic.cpp - Integers without undefined values ----------===//
//
// A divisor of 0 is replaced by 1, and the result by what the division means.
// So is -1, where the least integer would overflow: dividing it by 1 gives what
// wraps. A shift goes by a distance that exists. Constants that are harmless,
// as almost all are, cost nothing. A number that no integer is near becomes the
// nearest one there is.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/IntegerArithmetic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
/// Emits around one op, scalar or vector.
class Guard {
public:
  Guard(OpBuilder &builder, Operation *op)
      : builder(builder), op(op), left(op->getOperand(0)),
        right(op->getOperand(1)) {}

  Value divide(bool isSigned, bool isRemainder);
  Value shift(bool keepsSign);

private:
  Value constant(const APInt &value) {
    Type type = right.getType();
    Type element = getElementTypeOrSelf(type);
    TypedAttr attr = builder.getIntegerAttr(element, value);
    if (auto shaped = dyn_cast<ShapedType>(type))
      attr = DenseElementsAttr::get(shaped, value);
    return arith::ConstantOp::create(builder, op->getLoc(), attr);
  }
  Value constant(int64_t value) {
    return constant(APInt(getWidth(), value, /*isSigned=*/true));
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, op->getLoc(), predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, op->getLoc(), condition, a, b);
  }
  unsigned getWidth() {
    return getElementTypeOrSelf(right.getType()).getIntOrFloatBitWidth();
  }
  Value insert(Value second) {
    op->setOperand(1, second);
    builder.insert(op);
    return op->getResult(0);
  }

  OpBuilder &builder;
  Operation *op;
  Value left, right;
};
} // namespace

Value Guard::divide(bool isSigned, bool isRemainder) {
  using arith::CmpIPredicate;
  Value zero = constant(0);
  Value isZero = compare(CmpIPredicate::eq, right, zero);
  Value isOne = isZero;
  if (isSigned) {
    Value least = constant(APInt::getSignedMinValue(getWidth()));
    Value overflows = arith::AndIOp::create(
        builder, op->getLoc(), compare(CmpIPredicate::eq, right, constant(-1)),
        compare(CmpIPredicate::eq, left, least));
    isOne = arith::OrIOp::create(builder, op->getLoc(), isZero, overflows);
  }
  Value result = insert(select(isOne, constant(1), right));
  return select(isZero, isRemainder ? left : zero, result);
}

Value Guard::shift(bool keepsSign) {
  Value last = constant(getWidth() - 1);
  Value distance = arith::MinUIOp::create(builder, op->getLoc(), right, last);
  Value shifted = insert(distance);
  if (keepsSign)
    return shifted;
  Value exists = compare(arith::CmpIPredicate::ule, right, last);
  return select(exists, shifted, constant(0));
}

/// Inserts a conversion to integers that saturates. What the processor makes of
/// numbers out of range is never chosen.
static Value saturate(OpBuilder &builder, Operation *op, bool isSigned) {
  using arith::CmpFPredicate;
  Location loc = op->getLoc();
  Value number = op->getOperand(0);
  Type from = number.getType(), to = op->getResult(0).getType();
  unsigned width = getElementTypeOrSelf(to).getIntOrFloatBitWidth();
  auto splat = [&](Type type, TypedAttr element) -> Value {
    if (auto shaped = dyn_cast<ShapedType>(type))
      element = DenseElementsAttr::get(shaped, ArrayRef<Attribute>(element));
    return arith::ConstantOp::create(builder, loc, element);
  };
  auto whole = [&](const APInt &value) {
    return splat(to, builder.getIntegerAttr(getElementTypeOrSelf(to), value));
  };
  // A power of two, or 0: both float types hold it.
  auto bound = [&](const APInt &value) {
    APFloat converted(
        cast<FloatType>(getElementTypeOrSelf(from)).getFloatSemantics());
    converted.convertFromAPInt(value, /*IsSigned=*/true,
                               APFloat::rmNearestTiesToEven);
    return splat(from,
                 builder.getFloatAttr(getElementTypeOrSelf(from), converted));
  };
  APInt least = isSigned ? APInt::getSignedMinValue(width) : APInt(width, 0);
  APInt most =
      isSigned ? APInt::getSignedMaxValue(width) : APInt::getMaxValue(width);
  APInt end = (isSigned ? most.sext(width + 2) : most.zext(width + 2)) + 1;
  auto replaceWhere = [&](CmpFPredicate predicate, Value other, Value by,
                          Value result) -> Value {
    Value condition =
        arith::CmpFOp::create(builder, loc, predicate, number, other);
    return arith::SelectOp::create(builder, loc, condition, by, result);
  };
  builder.insert(op);
  Value result = op->getResult(0);
  result = replaceWhere(CmpFPredicate::OGE, bound(end), whole(most), result);
  result = replaceWhere(CmpFPredicate::OLT, bound(least.sext(width + 2)),
                        whole(least), result);
  return replaceWhere(CmpFPredicate::UNO, number, whole(APInt(width, 0)),
                      result);
}

Value codegen::insertDefined(OpBuilder &builder, Operation *clone,
                             Operation &original) {
  APInt known;
  bool isKnown = original.getNumOperands() == 2 &&
                 matchPattern(original.getOperand(1), m_ConstantInt(&known));
  if (isa<arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
          arith::RemSIOp>(original) &&
      !(isKnown && !known.isZero() && !known.isAllOnes()))
    return Guard(builder, clone)
        .divide(/*isSigned=*/true, isa<arith::RemSIOp>(original));
  if (isa<arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp>(original) &&
      !(isKnown && !known.isZero()))
    return Guard(builder, clone)
        .divide(/*isSigned=*/false, isa<arith::RemUIOp>(original));
  if (isa<arith::ShLIOp, arith::ShRUIOp, arith::ShRSIOp>(original) &&
      !(isKnown && known.ult(known.getBitWidth())))
    return Guard(builder, clone).shift(isa<arith::ShRSIOp>(original));
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(original))
    return saturate(builder, clone, isa<arith::FPToSIOp>(original));
  builder.insert(clone);
  return clone->getResult(0);
}
