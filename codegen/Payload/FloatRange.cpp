//===- FloatRange.cpp - Ranges of floating-point values -------------------===//

#include "codegen/Payload/FloatRange.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using pos::ValueRange32;

/// What is certain holds of ordered numbers only; what is possible, of NaN as
/// well.
ValueRange32 codegen::emitFloatCompare(OpBuilder &builder, Location loc,
                                       arith::CmpFPredicate predicate,
                                       ValueRange32 a, ValueRange32 b) {
  using arith::CmpFPredicate;
  Value yes =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1);
  auto compare = [&](CmpFPredicate how, Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, loc, how, x, y);
  };
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(builder, loc, x, y);
  };
  auto isNot = [&](Value x) -> Value {
    return arith::XOrIOp::create(builder, loc, x, yes);
  };
  auto again = [&](CmpFPredicate how, ValueRange32 x, ValueRange32 y) {
    return emitFloatCompare(builder, loc, how, x, y);
  };
  switch (predicate) {
  case CmpFPredicate::AlwaysFalse:
    return {isNot(yes), isNot(yes)};
  case CmpFPredicate::AlwaysTrue:
    return {yes, yes};
  case CmpFPredicate::OLT:
  case CmpFPredicate::ULT:
    return {compare(CmpFPredicate::OLT, a.high, b.low),
            compare(CmpFPredicate::ULT, a.low, b.high)};
  case CmpFPredicate::OLE:
  case CmpFPredicate::ULE:
    return {compare(CmpFPredicate::OLE, a.high, b.low),
            compare(CmpFPredicate::ULE, a.low, b.high)};
  case CmpFPredicate::OGT:
  case CmpFPredicate::UGT:
    return again(CmpFPredicate::OLT, b, a);
  case CmpFPredicate::OGE:
  case CmpFPredicate::UGE:
    return again(CmpFPredicate::OLE, b, a);
  case CmpFPredicate::OEQ:
  case CmpFPredicate::UEQ: {
    Value one = both(compare(CmpFPredicate::OEQ, a.low, a.high),
                     compare(CmpFPredicate::OEQ, b.low, b.high));
    Value overlap = both(compare(CmpFPredicate::ULE, a.low, b.high),
                         compare(CmpFPredicate::ULE, b.low, a.high));
    return {both(one, compare(CmpFPredicate::OEQ, a.low, b.low)), overlap};
  }
  case CmpFPredicate::ONE:
  case CmpFPredicate::UNE: {
    ValueRange32 equal = again(CmpFPredicate::OEQ, a, b);
    return {isNot(equal.high), isNot(equal.low)};
  }
  case CmpFPredicate::ORD:
    return {compare(CmpFPredicate::ORD, a.low, b.low), yes};
  case CmpFPredicate::UNO:
    return {isNot(yes), compare(CmpFPredicate::UNO, a.low, b.low)};
  }
  llvm_unreachable("unknown predicate");
}

/// The range if both ends are finite, else unknown: sums and products of
/// infinities may be NaN.
static ValueRange32 emitFinite(OpBuilder &builder, Location loc, Value low,
                               Value high) {
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(builder, loc, x, y);
  };
  auto nothing = [&](Value x) -> Value { // 0 or NaN
    return arith::SubFOp::create(builder, loc, x, x);
  };
  Value both = add(nothing(low), nothing(high));
  return {add(low, both), add(high, both)};
}

ValueRange32 codegen::emitFloatRange(OpBuilder &builder, Operation *op,
                                     ArrayRef<ValueRange32> operands) {
  Location loc = op->getLoc();
  if (auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
      flags && flags.getFastMathFlagsAttr() &&
      flags.getFastMathFlagsAttr().getValue() != arith::FastMathFlags::none)
    return {};
  if (operands.empty() || op->getOperand(0).getType().isInteger(1))
    return {};
  ValueRange32 a = operands.front(), b = operands.back();
  auto negate = [&](Value value) -> Value {
    return arith::NegFOp::create(builder, loc, value);
  };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(builder, loc, x, y);
  };
  auto subtract = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(builder, loc, x, y);
  };
  auto multiply = [&](Value x, Value y) -> Value {
    return arith::MulFOp::create(builder, loc, x, y);
  };
  // These give NaN where one side is NaN.
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinimumFOp::create(builder, loc, x, y);
  };
  auto most = [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(builder, loc, x, y);
  };
  return llvm::TypeSwitch<Operation *, ValueRange32>(op)
      .Case<arith::AddFOp>([&](auto) {
        return emitFinite(builder, loc, add(a.low, b.low), add(a.high, b.high));
      })
      .Case<arith::SubFOp>([&](auto) {
        return emitFinite(builder, loc, subtract(a.low, b.high),
                          subtract(a.high, b.low));
      })
      .Case<arith::MulFOp>([&](auto) {
        Value ends[] = {multiply(a.low, b.low), multiply(a.low, b.high),
                        multiply(a.high, b.low), multiply(a.high, b.high)};
        return emitFinite(
            builder, loc,
            least(least(ends[0], ends[1]), least(ends[2], ends[3])),
            most(most(ends[0], ends[1]), most(ends[2], ends[3])));
      })
      .Case<arith::NegFOp>(
          [&](auto) { return ValueRange32{negate(a.high), negate(a.low)}; })
      .Case<math::AbsFOp>([&](auto) {
        Value zero = arith::ConstantOp::create(builder, loc,
                                               builder.getF32FloatAttr(0.0));
        return ValueRange32{most(zero, most(a.low, negate(a.high))),
                            most(negate(a.low), a.high)};
      })
      .Case<arith::SIToFPOp>([&](auto) {
        auto convert = [&](Value value) -> Value {
          return arith::SIToFPOp::create(builder, loc, builder.getF32Type(),
                                         value);
        };
        return ValueRange32{convert(a.low), convert(a.high)};
      })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) {
        return ValueRange32{least(a.low, b.low), least(a.high, b.high)};
      })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) {
        return ValueRange32{most(a.low, b.low), most(a.high, b.high)};
      })
      .Default([](auto) { return ValueRange32(); });
}
