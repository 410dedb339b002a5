//===- VectorFunctions.cpp - Elementary functions on vectors --------------===//

#include "codegen/Emit/VectorFunctions.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;
using namespace sextant::codegen;

static constexpr double infinity = std::numeric_limits<double>::infinity();

Value VectorFunctions::round(Value x) {
  // The largest number below one half: x + 0.5 would round up too much.
  double half = isDouble() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2;
  Value moved = add(x, copySign(constant(half), x));
  return copySign(math::TruncOp::create(builder, loc, moved), x);
}

//===----------------------------------------------------------------------===//
// Exponentials
//===----------------------------------------------------------------------===//

/// r + r^2 / 2! + ...: |r| <= 0.3466, so the first term left out is below
/// 2^-27 (f32) or 2^-56 (f64) of the sum.
Value VectorFunctions::expm1Reduced(Value r) {
  SmallVector<double> coefficients;
  double factorial = 1;
  int last = isDouble() ? 14 : 8;
  for (int n = 2; n <= last; ++n) {
    factorial *= n;
    coefficients.push_back(1 / factorial);
  }
  return fma(mul(r, r), polynomial(r, coefficients), r);
}

VectorFunctions::Reduced VectorFunctions::reduceExp(Value x) {
  // ln 2 as a number with trailing zeros plus the rest.
  double high = isDouble() ? 0x1.62e42fefa0000p-1 : 0x1.62e4p-1;
  double low = isDouble() ? 0x1.cf79abc9e3b3ap-40 : 0x1.7f7d1cf79abcap-20;
  auto [whole, number] = nearest(mul(x, constant(std::numbers::log2e)));
  Value rest = fma(whole, constant(-high), x);
  return {whole, number, fma(whole, constant(-low), rest)};
}

Value VectorFunctions::exp(Value x) {
  x = clamp(x, isDouble() ? -800 : -120, isDouble() ? 800 : 120);
  Reduced reduced = reduceExp(x);
  Value power = add(expm1Reduced(reduced.rest), constant(1.0));
  return scale(power, reduced.number);
}

Value VectorFunctions::exp2(Value x) {
  x = clamp(x, isDouble() ? -1150 : -170, isDouble() ? 1150 : 170);
  auto [whole, number] = nearest(x);
  Value rest = mul(sub(x, whole), constant(std::numbers::ln2));
  return scale(add(expm1Reduced(rest), constant(1.0)), number);
}

/// 2^n (e^r - 1) + (2^n - 1), without cancellation where n is 0.
Value VectorFunctions::expm1(Value x) {
  double top = isDouble() ? 800 : 120, bottom = isDouble() ? -50 : -30;
  Value clamped = clamp(x, bottom, top);
  Reduced reduced = reduceExp(clamped);
  // One less in the exponent: 2^n itself overflows before the result does.
  Value less1 = arith::SubIOp::create(builder, loc, reduced.number, integer(1));
  Value big = less(constant(isDouble() ? 709.9 : 88.9), clamped);
  Value power =
      powerOfTwo(arith::SelectOp::create(builder, loc, big, integer(0), less1));
  Value sum = fma(power, expm1Reduced(reduced.rest), sub(power, constant(0.5)));
  Value result = select(big, constant(infinity), add(sum, sum));
  // The sum of a zero loses its sign.
  return select(equal(x, constant(0.0)), x, result);
}

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

/// Splits x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s) with
/// s = (m - 1) / (m + 1), |s| <= 0.1716.
VectorFunctions::Logarithm VectorFunctions::splitLog(Value x) {
  int64_t shift = isDouble() ? 52 : 23;
  int64_t rootHalf = isDouble() ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  double smallest = isDouble() ? 0x1p-1022 : 0x1p-126;
  double lift = isDouble() ? 0x1p54 : 0x1p25;
  Value denormal = less(x, constant(smallest));
  Value lifted = select(denormal, mul(x, constant(lift)), x);
  Value bits = arith::BitcastOp::create(builder, loc, integerType, lifted);
  Value above = arith::SubIOp::create(builder, loc, bits, integer(rootHalf));
  Value exponent = arith::ShRSIOp::create(builder, loc, above, integer(shift));
  Value shifted = arith::ShLIOp::create(builder, loc, exponent, integer(shift));
  Value mantissa = arith::BitcastOp::create(
      builder, loc, type, arith::SubIOp::create(builder, loc, bits, shifted));
  Value whole = arith::SIToFPOp::create(builder, loc, type, exponent);
  whole = select(denormal, sub(whole, constant(isDouble() ? 54 : 25)), whole);

  Value f = sub(mantissa, constant(1.0));
  Value s = div(f, add(f, constant(2.0)));
  Value square = mul(s, s);
  // log m = f - f^2 / 2 + s (f^2 / 2 + series): f is exact, the rest small.
  SmallVector<double> coefficients;
  int terms = isDouble() ? 11 : 5;
  for (int n = 1; n <= terms; ++n)
    coefficients.push_back(2.0 / (2 * n + 1));
  Value series = mul(square, polynomial(square, coefficients));
  Value half = mul(mul(f, f), constant(0.5));
  Value correction = sub(half, mul(s, add(half, series)));
  return {sub(f, correction), whole};
}

Value VectorFunctions::logAtEnds(Value x, Value value) {
  Value zero = constant(0.0), top = constant(infinity);
  value = select(equal(x, zero), constant(-infinity), value);
  value = select(equal(x, top), top, value);
  Value valid =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGE, x, zero);
  return select(valid, value,
                constant(std::numeric_limits<double>::quiet_NaN()));
}

Value VectorFunctions::log(Value x) {
  double high = isDouble() ? 0x1.62e42fefa0000p-1 : 0x1.62e4p-1;
  double low = isDouble() ? 0x1.cf79abc9e3b3ap-40 : 0x1.7f7d1cf79abcap-20;
  Logarithm parts = splitLog(x);
  Value small = fma(parts.exponent, constant(low), parts.logMantissa);
  return logAtEnds(x, fma(parts.exponent, constant(high), small));
}

Value VectorFunctions::log2(Value x) {
  Logarithm parts = splitLog(x);
  return logAtEnds(
      x, fma(parts.logMantissa, constant(std::numbers::log2e), parts.exponent));
}

Value VectorFunctions::log10(Value x) {
  Logarithm parts = splitLog(x);
  double log10Of2 = std::log10(2.0);
  double high = static_cast<float>(log10Of2);
  Value small = mul(parts.logMantissa, constant(std::numbers::log10e));
  small = fma(parts.exponent, constant(log10Of2 - high), small);
  return logAtEnds(x, fma(parts.exponent, constant(high), small));
}

/// log(u) + c / u with u = 1 + x rounded and c what the rounding lost.
Value VectorFunctions::log1p(Value x) {
  double high = isDouble() ? 0x1.62e42fefa0000p-1 : 0x1.62e4p-1;
  double low = isDouble() ? 0x1.cf79abc9e3b3ap-40 : 0x1.7f7d1cf79abcap-20;
  Value one = constant(1.0);
  Value u = add(x, one);
  Value lostBelow = sub(x, sub(u, one)), lostAbove = sub(one, sub(u, x));
  Value lost = select(less(x, one), lostBelow, lostAbove);
  Logarithm parts = splitLog(u);
  Value small = fma(parts.exponent, constant(low), div(lost, u));
  small = add(parts.logMantissa, small);
  Value value = fma(parts.exponent, constant(high), small);
  Value result = logAtEnds(u, value);
  return select(equal(x, constant(0.0)), x, result);
}

//===----------------------------------------------------------------------===//
// Hyperbolic functions
//===----------------------------------------------------------------------===//

/// e / (e + 2) with e = exp(2 |x|) - 1, where that is far from the ends that
/// `expm1` takes care of.
Value VectorFunctions::tanh(Value x) {
  Value magnitude = abs(x), top = constant(isDouble() ? 20 : 10);
  magnitude = select(less(top, magnitude), top, magnitude);
  Reduced reduced = reduceExp(add(magnitude, magnitude));
  Value power = powerOfTwo(reduced.number);
  Value e = fma(power, expm1Reduced(reduced.rest), sub(power, constant(1.0)));
  return copySign(div(e, add(e, constant(2.0))), x);
}

/// (e + e / (e + 1)) / 2 with e = exp(|x|) - 1, written so that nothing
/// overflows before the result does.
Value VectorFunctions::sinh(Value x) {
  Value magnitude = abs(x);
  Value e = expm1(magnitude);
  Value quotient = div(e, add(e, constant(1.0)));
  Value moderate = mul(add(e, quotient), constant(0.5));
  Value root = exp(mul(magnitude, constant(0.5)));
  Value large = mul(mul(root, constant(0.5)), root);
  Value isLarge = less(constant(isDouble() ? 40 : 20), magnitude);
  return copySign(select(isLarge, large, moderate), x);
}

Value VectorFunctions::cosh(Value x) {
  Value magnitude = abs(x);
  Value e = exp(magnitude);
  Value moderate = fma(e, constant(0.5), div(constant(0.5), e));
  Value root = exp(mul(magnitude, constant(0.5)));
  Value large = mul(mul(root, constant(0.5)), root);
  Value isLarge = less(constant(isDouble() ? 40 : 20), magnitude);
  return select(isLarge, large, moderate);
}

/// Above this, x^2 + 1 is x^2 and asinh and acosh are log(2 x).
static constexpr double largeArea = 0x1p28;

/// log(1 + (a + (sqrt(a^2 + 1) - 1))) with a = |x|.
Value VectorFunctions::asinh(Value x) {
  Value magnitude = abs(x), square = mul(magnitude, magnitude);
  Value root = math::SqrtOp::create(builder, loc, add(square, constant(1.0)));
  Value rest = div(square, add(root, constant(1.0)));
  Value moderate = log1p(add(magnitude, rest));
  Value large = add(log(magnitude), constant(std::numbers::ln2));
  Value isLarge = less(constant(largeArea), magnitude);
  return copySign(select(isLarge, large, moderate), x);
}

/// log(1 + ((x - 1) + sqrt(x^2 - 1))); of x < 1 one root at least is NaN.
Value VectorFunctions::acosh(Value x) {
  Value above = sub(x, constant(1.0));
  Value root = mul(math::SqrtOp::create(builder, loc, above),
                   math::SqrtOp::create(builder, loc, add(x, constant(1.0))));
  Value moderate = log1p(add(above, root));
  Value large = add(log(x), constant(std::numbers::ln2));
  return select(less(constant(largeArea), x), large, moderate);
}

/// log((1 + a) / (1 - a)) / 2 with a = |x|.
Value VectorFunctions::atanh(Value x) {
  Value magnitude = abs(x);
  Value quotient =
      div(add(magnitude, magnitude), sub(constant(1.0), magnitude));
  return copySign(mul(log1p(quotient), constant(0.5)), x);
}

//===----------------------------------------------------------------------===//
// Functions that compute in f64
//===----------------------------------------------------------------------===//

static Value toDouble(OpBuilder &builder, Location loc, Value x) {
  auto type = cast<VectorType>(x.getType());
  Type f64 = builder.getF64Type();
  if (type.getElementType() == f64)
    return x;
  return arith::ExtFOp::create(builder, loc, type.clone(f64), x);
}

VectorFunctions VectorFunctions::inDouble() {
  return VectorFunctions(
      builder, loc, VectorType::get(type.getShape(), builder.getF64Type()));
}
Value VectorFunctions::fromDouble(Value x) {
  return isDouble() ? x : arith::TruncFOp::create(builder, loc, type, x);
}

/// x = k pi / 2 + r, with pi / 2 as the sum of three numbers: exact to the last
/// bit of r while k has less than 50 bits. Series on |r| <= pi / 4.
std::pair<Value, Value> VectorFunctions::sinCos(Value x) {
  Value k = math::RoundEvenOp::create(
      builder, loc, mul(x, constant(2 * std::numbers::inv_pi)));
  Value r = fma(k, constant(-0x1.921fb54442d18p+0), x);
  r = fma(k, constant(-0x1.1a62633145c07p-54), r);
  r = fma(k, constant(0x1.f1976b7ed8fbcp-110), r);
  SmallVector<double> odd, even;
  double factorial = 2, sign = 1;
  for (int n = 3; n <= 18; n += 2) { // 3!, -5!, ... and 4!, -6!, ...
    factorial *= n;
    odd.push_back(-sign / factorial);
    factorial *= n + 1;
    even.push_back(sign / factorial);
    sign = -sign;
  }
  Value square = mul(r, r);
  Value sine = fma(mul(r, square), polynomial(square, odd), r);
  Value cosine = fma(mul(square, square), polynomial(square, even),
                     fma(square, constant(-0.5), constant(1.0)));
  // Quadrant k mod 4: 1 and 3 swap the two, 1 and 2 negate the cosine, 2 and 3
  // the sine.
  Value quarter = math::FloorOp::create(builder, loc, mul(k, constant(0.25)));
  Value quadrant = fma(quarter, constant(-4.0), k);
  auto is = [&](double value) { return equal(quadrant, constant(value)); };
  auto either = [&](Value a, Value b) -> Value {
    return arith::OrIOp::create(builder, loc, a, b);
  };
  Value one = is(1), two = is(2), three = is(3), swap = either(one, three);
  Value s = select(swap, cosine, sine), c = select(swap, sine, cosine);
  return {select(either(two, three), neg(s), s),
          select(either(one, two), neg(c), c)};
}

Value VectorFunctions::sin(Value x) {
  Value result = fromDouble(inDouble().sinCos(toDouble(builder, loc, x)).first);
  return select(equal(x, constant(0.0)), x, result);
}
Value VectorFunctions::cos(Value x) {
  return fromDouble(inDouble().sinCos(toDouble(builder, loc, x)).second);
}
Value VectorFunctions::tan(Value x) {
  auto [sine, cosine] = inDouble().sinCos(toDouble(builder, loc, x));
  Value quotient = arith::DivFOp::create(builder, loc, sine, cosine);
  return select(equal(x, constant(0.0)), x, fromDouble(quotient));
}

Value VectorFunctions::pow(Value base, Value exponent) {
  if (!isDouble())
    return fromDouble(inDouble().pow(toDouble(builder, loc, base),
                                     toDouble(builder, loc, exponent)));
  Value magnitude = abs(base), zero = constant(0.0);
  Value result = exp2(mul(exponent, log2(magnitude)));
  // A negative base has powers of whole exponents only.
  Value whole = math::FloorOp::create(builder, loc, exponent);
  Value half = mul(exponent, constant(0.5));
  Value halfWhole = math::FloorOp::create(builder, loc, half);
  Value isWhole = equal(whole, exponent), isEven = equal(halfWhole, half);
  Value nan = constant(std::numeric_limits<double>::quiet_NaN());
  Value negative = select(isWhole, select(isEven, result, neg(result)), nan);
  result = select(less(base, zero), negative, result);
  return select(equal(exponent, zero), constant(1.0), result);
}
