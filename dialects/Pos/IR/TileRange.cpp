//===- TileRange.cpp - Arithmetic on ranges of integers -------------------===//
//
// Bounds are computed in 64 bits where 32 may not hold them; where a value may
// wrap, its range is that of all 32-bit integers.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/TileRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

using namespace mlir;
using namespace sextant::pos;

static constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
static constexpr int64_t highest = std::numeric_limits<int32_t>::max();

namespace {
/// Bounds as wide integers, made i32 by `finish`.
class Bounds {
public:
  Bounds(OpBuilder &builder, Location loc, unsigned bits)
      : builder(builder), loc(loc), bits(bits) {}

  /// The bound in a type that no result of one operation leaves.
  Value get(Value bound) {
    if (!isChecked())
      return bound;
    return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), bound);
  }
  template <typename OpTy> Value make(Value a, Value b) {
    return OpTy::create(builder, loc, a, b);
  }
  Value constant(int64_t value) {
    Type type = isChecked() ? builder.getI64Type() : builder.getI32Type();
    return arith::ConstantIntOp::create(builder, loc, type, value);
  }
  ValueRange32 finish(Value low, Value high);

private:
  bool isChecked() const { return bits > 32; }

  OpBuilder &builder;
  Location loc;
  unsigned bits;
};
} // namespace

ValueRange32 Bounds::finish(Value low, Value high) {
  if (!isChecked())
    return {low, high, bits};
  auto compare = [&](arith::CmpIPredicate predicate, Value value,
                     int64_t bound) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, value,
                                 constant(bound));
  };
  Value fits =
      make<arith::AndIOp>(compare(arith::CmpIPredicate::sge, low, lowest),
                          compare(arith::CmpIPredicate::sle, high, highest));
  auto choose = [&](Value bound, int64_t otherwise) -> Value {
    Type i32 = builder.getI32Type();
    Value narrow = arith::TruncIOp::create(builder, loc, i32, bound);
    return arith::SelectOp::create(
        builder, loc, fits, narrow,
        arith::ConstantIntOp::create(builder, loc, i32, otherwise));
  };
  return {choose(low, lowest), choose(high, highest)};
}

ValueRange32 sextant::pos::emitSum(OpBuilder &builder, Location loc,
                                   ValueRange32 a, ValueRange32 b) {
  Bounds bounds(builder, loc, std::max(a.bits, b.bits) + 1);
  auto sum = [&](Value left, Value right) {
    return bounds.make<arith::AddIOp>(bounds.get(left), bounds.get(right));
  };
  return bounds.finish(sum(a.low, b.low), sum(a.high, b.high));
}

ValueRange32 sextant::pos::emitDifference(OpBuilder &builder, Location loc,
                                          ValueRange32 a, ValueRange32 b) {
  Bounds bounds(builder, loc, std::max(a.bits, b.bits) + 1);
  auto difference = [&](Value left, Value right) {
    return bounds.make<arith::SubIOp>(bounds.get(left), bounds.get(right));
  };
  return bounds.finish(difference(a.low, b.high), difference(a.high, b.low));
}

ValueRange32 sextant::pos::emitProduct(OpBuilder &builder, Location loc,
                                       ValueRange32 a, ValueRange32 b) {
  Bounds bounds(builder, loc, a.bits + b.bits);
  auto product = [&](Value left, Value right) {
    return bounds.make<arith::MulIOp>(bounds.get(left), bounds.get(right));
  };
  Value ends[] = {product(a.low, b.low), product(a.low, b.high),
                  product(a.high, b.low), product(a.high, b.high)};
  auto least = [&](Value x, Value y) {
    return bounds.make<arith::MinSIOp>(x, y);
  };
  auto most = [&](Value x, Value y) {
    return bounds.make<arith::MaxSIOp>(x, y);
  };
  return bounds.finish(least(least(ends[0], ends[1]), least(ends[2], ends[3])),
                       most(most(ends[0], ends[1]), most(ends[2], ends[3])));
}

ValueRange32 sextant::pos::emitAbsolute(OpBuilder &builder, Location loc,
                                        ValueRange32 a) {
  // |-2^31| wraps.
  Bounds bounds(builder, loc, a.bits < 32 ? a.bits : 33);
  Value low = bounds.get(a.low), high = bounds.get(a.high);
  Value zero = bounds.constant(0);
  Value negatedLow = bounds.make<arith::SubIOp>(zero, low);
  Value negatedHigh = bounds.make<arith::SubIOp>(zero, high);
  return bounds.finish(bounds.make<arith::MaxSIOp>(
                           zero, bounds.make<arith::MaxSIOp>(low, negatedHigh)),
                       bounds.make<arith::MaxSIOp>(negatedLow, high));
}
