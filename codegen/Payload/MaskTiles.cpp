//===- MaskTiles.cpp - What a mask says of a whole tile -------------------===//

#include "codegen/Payload/MaskTiles.h"
#include "codegen/Payload/FloatRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;
using pos::ValueRange32;

namespace {
/// Gives each value of a payload its range.
class RangeEmitter {
public:
  RangeEmitter(OpBuilder &builder, Location loc, pos::TileBounds &tile,
               HoistedRange hoisted)
      : builder(builder), loc(loc), tile(tile), hoisted(hoisted) {}

  ValueRange32 get(Value value) {
    if (auto known = ranges.find(value); known != ranges.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    return ranges[value] = op ? emit(op) : ValueRange32();
  }

private:
  ValueRange32 emit(Operation *op);
  ValueRange32 emitConstant(Operation *op);
  ValueRange32 emitInteger(Operation *op);
  ValueRange32 emitFloat(Operation *op);
  ValueRange32 emitCondition(Operation *op);
  ValueRange32 emitSelect(arith::SelectOp op);
  ValueRange32 emitHull(ValueRange32 a, ValueRange32 b);
  ValueRange32 emitCompare(arith::CmpIPredicate predicate, ValueRange32 a,
                           ValueRange32 b);

  template <typename OpTy> Value make(Value a, Value b) {
    return OpTy::create(builder, loc, a, b);
  }
  Value min(Value a, Value b) { return make<arith::MinSIOp>(a, b); }
  Value max(Value a, Value b) { return make<arith::MaxSIOp>(a, b); }
  Value both(Value a, Value b) { return make<arith::AndIOp>(a, b); }
  Value either(Value a, Value b) { return make<arith::OrIOp>(a, b); }
  Value isNot(Value a) {
    return make<arith::XOrIOp>(
        a, arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1));
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, builder.getI32Type(),
                                        value);
  }

  OpBuilder &builder;
  Location loc;
  pos::TileBounds &tile;
  HoistedRange hoisted;
  llvm::DenseMap<Value, ValueRange32> ranges;
};
} // namespace

/// The value of a positive constant, or nothing.
static std::optional<int64_t> getPositive(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) &&
      constant.isStrictlyPositive())
    return constant.getSExtValue();
  return std::nullopt;
}

/// What holds every value of both ranges.
ValueRange32 RangeEmitter::emitHull(ValueRange32 a, ValueRange32 b) {
  if (isa<FloatType>(a.low.getType())) // these keep a NaN
    return {make<arith::MinimumFOp>(a.low, b.low),
            make<arith::MaximumFOp>(a.high, b.high)};
  return {min(a.low, b.low), max(a.high, b.high), std::max(a.bits, b.bits)};
}

ValueRange32 RangeEmitter::emitSelect(arith::SelectOp op) {
  ValueRange32 condition = get(op.getCondition());
  ValueRange32 a = get(op.getTrueValue()), b = get(op.getFalseValue());
  if (!a.known() || !b.known())
    return {};
  if (op.getType().isInteger(1)) {
    ValueRange32 any{both(a.low, b.low), either(a.high, b.high)};
    if (!condition.known())
      return any;
    Value certain =
        either(both(condition.low, a.low), both(isNot(condition.high), b.low));
    Value possible = either(both(condition.high, a.high),
                            both(isNot(condition.low), b.high));
    return {either(any.low, certain), both(any.high, possible)};
  }
  ValueRange32 hull = emitHull(a, b);
  if (!condition.known())
    return hull;
  auto choose = [&](Value certain, Value never, Value between) -> Value {
    Value rest =
        arith::SelectOp::create(builder, loc, condition.high, between, never);
    return arith::SelectOp::create(builder, loc, condition.low, certain, rest);
  };
  return {choose(a.low, b.low, hull.low), choose(a.high, b.high, hull.high),
          hull.bits};
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

ValueRange32 RangeEmitter::emitCompare(arith::CmpIPredicate predicate,
                                       ValueRange32 a, ValueRange32 b) {
  using arith::CmpIPredicate;
  switch (predicate) {
  case CmpIPredicate::slt:
  case CmpIPredicate::sle:
    return {compare(predicate, a.high, b.low),
            compare(predicate, a.low, b.high)};
  case CmpIPredicate::sgt:
    return emitCompare(CmpIPredicate::slt, b, a);
  case CmpIPredicate::sge:
    return emitCompare(CmpIPredicate::sle, b, a);
  case CmpIPredicate::eq: {
    Value one = both(compare(CmpIPredicate::eq, a.low, a.high),
                     compare(CmpIPredicate::eq, b.low, b.high));
    Value overlap = both(compare(CmpIPredicate::sle, a.low, b.high),
                         compare(CmpIPredicate::sle, b.low, a.high));
    return {both(one, overlap), overlap};
  }
  case CmpIPredicate::ne: {
    ValueRange32 equal = emitCompare(CmpIPredicate::eq, a, b);
    return {isNot(equal.high), isNot(equal.low)};
  }
  case CmpIPredicate::ult:
  case CmpIPredicate::ule:
  case CmpIPredicate::ugt:
  case CmpIPredicate::uge: {
    // As signed where nothing is negative, else unknown.
    bool isLess =
        predicate == CmpIPredicate::ult || predicate == CmpIPredicate::ule;
    bool isStrict =
        predicate == CmpIPredicate::ult || predicate == CmpIPredicate::ugt;
    ValueRange32 result =
        emitCompare(isStrict ? CmpIPredicate::slt : CmpIPredicate::sle,
                    isLess ? a : b, isLess ? b : a);
    Value isPositive =
        compare(CmpIPredicate::sge, min(a.low, b.low), constant(0));
    return {both(isPositive, result.low),
            either(isNot(isPositive), result.high)};
  }
  }
  llvm_unreachable("unknown predicate");
}

ValueRange32 RangeEmitter::emitCondition(Operation *op) {
  if (auto compareOp = dyn_cast<arith::CmpFOp>(op)) {
    if (!compareOp.getLhs().getType().isF32() ||
        compareOp.getFastmath() != arith::FastMathFlags::none)
      return {};
    ValueRange32 a = get(compareOp.getLhs()), b = get(compareOp.getRhs());
    if (!a.known() || !b.known())
      return {};
    return emitFloatCompare(builder, loc, compareOp.getPredicate(), a, b);
  }
  if (auto compareOp = dyn_cast<arith::CmpIOp>(op)) {
    if (!compareOp.getLhs().getType().isInteger(32))
      return {};
    ValueRange32 a = get(compareOp.getLhs()), b = get(compareOp.getRhs());
    if (!a.known() || !b.known())
      return {};
    return emitCompare(compareOp.getPredicate(), a, b);
  }
  if (!isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return {};
  ValueRange32 a = get(op->getOperand(0)), b = get(op->getOperand(1));
  // One side may decide alone.
  Value no = arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 0);
  auto orUnknown = [&](ValueRange32 range) {
    return range.known() ? range : ValueRange32{no, isNot(no)};
  };
  if (!a.known() && !b.known())
    return {};
  a = orUnknown(a);
  b = orUnknown(b);
  if (isa<arith::AndIOp>(op))
    return {both(a.low, b.low), both(a.high, b.high)};
  if (isa<arith::OrIOp>(op))
    return {either(a.low, b.low), either(a.high, b.high)};
  Value certain =
      either(both(a.low, isNot(b.high)), both(isNot(a.high), b.low));
  Value isSame = either(both(a.low, b.low), both(isNot(a.high), isNot(b.high)));
  return {certain, isNot(isSame)};
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

ValueRange32 RangeEmitter::emitConstant(Operation *op) {
  Value copy = builder.clone(*op)->getResult(0);
  APInt constant;
  if (matchPattern(copy, m_ConstantInt(&constant)))
    return {copy, copy,
            std::max(constant.getSignificantBits(),
                     (-constant).getSignificantBits())};
  return {copy, copy};
}

ValueRange32 RangeEmitter::emitInteger(Operation *op) {
  if (auto absolute = dyn_cast<math::AbsIOp>(op)) {
    ValueRange32 a = get(absolute.getOperand());
    if (!a.known())
      return {};
    return pos::emitAbsolute(builder, loc, a);
  }
  if (auto extended = dyn_cast<arith::ExtUIOp>(op)) {
    ValueRange32 a = get(extended.getIn());
    if (!a.known() || !extended.getIn().getType().isInteger(1))
      return {};
    auto extend = [&](Value value) -> Value {
      return arith::ExtUIOp::create(builder, loc, builder.getI32Type(), value);
    };
    return {extend(a.low), extend(a.high), 2};
  }
  if (op->getNumOperands() != 2)
    return {};
  ValueRange32 a = get(op->getOperand(0)), b = get(op->getOperand(1));
  if (!a.known() || !b.known())
    return {};
  std::optional<int64_t> divisor = getPositive(op->getOperand(1));
  return llvm::TypeSwitch<Operation *, ValueRange32>(op)
      .Case<arith::AddIOp>(
          [&](auto) { return pos::emitSum(builder, loc, a, b); })
      .Case<arith::SubIOp>(
          [&](auto) { return pos::emitDifference(builder, loc, a, b); })
      .Case<arith::MulIOp>(
          [&](auto) { return pos::emitProduct(builder, loc, a, b); })
      .Case<arith::MinSIOp, arith::MaxSIOp>([&](auto typed) {
        using OpTy = decltype(typed);
        return ValueRange32{make<OpTy>(a.low, b.low),
                            make<OpTy>(a.high, b.high),
                            std::max(a.bits, b.bits)};
      })
      .Case<arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(
          [&](auto typed) {
            using OpTy = decltype(typed);
            return divisor ? ValueRange32{make<OpTy>(a.low, b.low),
                                          make<OpTy>(a.high, b.low), a.bits}
                           : ValueRange32();
          })
      .Case<arith::RemSIOp>([&](auto) {
        return divisor ? ValueRange32{max(min(a.low, constant(0)),
                                          constant(1 - *divisor)),
                                      max(min(a.high, constant(*divisor - 1)),
                                          constant(0)),
                                      b.bits}
                       : ValueRange32();
      })
      .Default([](auto) { return ValueRange32(); });
}

ValueRange32 RangeEmitter::emitFloat(Operation *op) {
  SmallVector<ValueRange32> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(get(operand));
    if (!operands.back().known())
      return {};
  }
  return emitFloatRange(builder, op, operands);
}

ValueRange32 RangeEmitter::emit(Operation *op) {
  if (auto context = dyn_cast<pos::ContextOpInterface>(op))
    return context.emitRange(builder, tile);
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return hoisted(builder, hoist);
  Type type = op->getNumResults() == 1 ? op->getResult(0).getType() : Type();
  if (!type || !(type.isInteger(1) || type.isInteger(32) || type.isF32()))
    return {};
  if (op->hasTrait<OpTrait::ConstantLike>())
    return emitConstant(op);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return emitSelect(select);
  if (type.isF32())
    return emitFloat(op);
  return type.isInteger(1) ? emitCondition(op) : emitInteger(op);
}

TileClass sextant::codegen::emitTileClass(OpBuilder &builder, pos::MaskOp mask,
                                          pos::TileBounds &tile,
                                          HoistedRange hoisted) {
  RangeEmitter emitter(builder, mask.getLoc(), tile, hoisted);
  Operation *yield = mask.getBody().front().getTerminator();
  ValueRange32 visible = emitter.get(yield->getOperand(0));
  return {visible.low, visible.high};
}
