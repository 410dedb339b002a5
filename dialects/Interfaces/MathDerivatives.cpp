//===- MathDerivatives.cpp - Derivative rules of math ---------------------===//
//
// Each rule gives the gradient of the operand of z = f(x): dx = dz f'(x). It
// says what it gives at a kink or a pole; 0 unless it says otherwise.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/RuleEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <numbers>

using namespace mlir;
using namespace sextant;

using Values = SmallVector<Value>;

template <typename OpTy> static Value unary(RuleEmitter &e, Value x) {
  return OpTy::create(e.builder, e.loc, x);
}

/// x is positive.
static Value positive(RuleEmitter &e, Value x) {
  return e.less(e.constant(0.0), x);
}
/// x is not zero (a NaN is not zero).
static Value nonzero(RuleEmitter &e, Value x) {
  return e.compare(arith::CmpFPredicate::UNE, x, e.constant(0.0));
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// floor, ceil, round, roundeven, trunc: 0 everywhere, at the steps too.
static Values pullStep(RuleEmitter &) { return {Value()}; }

/// 0 at 0.
static Values pullAbs(RuleEmitter &e) {
  return {e.select(positive(e, e.in(0)), e.ct,
                   e.where(e.less(e.in(0), e.constant(0.0)), e.neg(e.ct)))};
}

/// |a| with the sign of b: 0 where a is 0, and for b.
static Values pullCopySign(RuleEmitter &e) {
  Value one = e.constant(1.0);
  Value sa = math::CopySignOp::create(e.builder, e.loc, one, e.in(0));
  Value sb = math::CopySignOp::create(e.builder, e.loc, one, e.in(1));
  return {e.where(nonzero(e, e.in(0)), e.mul(e.ct, e.mul(sa, sb))), Value()};
}

/// To the value inside the bounds and on them, to the bound beyond it.
static Values pullClamp(RuleEmitter &e) {
  Value below = e.less(e.in(0), e.in(1)), above = e.less(e.in(2), e.in(0));
  Value zero = e.constant(0.0);
  Value inside = e.select(below, zero, e.select(above, zero, e.ct));
  return {inside, e.where(below, e.ct), e.where(above, e.ct)};
}

static Values pullFma(RuleEmitter &e) {
  return {e.mul(e.ct, e.in(1)), e.mul(e.ct, e.in(0)), e.ct};
}

//===----------------------------------------------------------------------===//
// Exponentials and logarithms
//===----------------------------------------------------------------------===//

static Values pullExp(RuleEmitter &e) { return {e.mul(e.ct, e.result)}; }
static Values pullExp2(RuleEmitter &e) {
  return {e.mul(e.ct, e.mul(e.result, e.constant(std::numbers::ln2)))};
}
static Values pullExpM1(RuleEmitter &e) {
  return {e.mul(e.ct, e.add(e.result, e.constant(1.0)))};
}

/// ct / (x factor), 0 where x is 0.
static Values pullLogOf(RuleEmitter &e, Value x, double factor) {
  Value divisor = factor == 1.0 ? x : e.mul(x, e.constant(factor));
  return {e.quotientWhere(nonzero(e, x), e.ct, divisor)};
}
static Values pullLog(RuleEmitter &e) { return pullLogOf(e, e.in(0), 1.0); }
static Values pullLog2(RuleEmitter &e) {
  return pullLogOf(e, e.in(0), std::numbers::ln2);
}
static Values pullLog10(RuleEmitter &e) {
  return pullLogOf(e, e.in(0), std::numbers::ln10);
}
/// 0 at -1.
static Values pullLog1p(RuleEmitter &e) {
  return pullLogOf(e, e.add(e.in(0), e.constant(1.0)), 1.0);
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

/// 0 at 0 and below.
static Values pullSqrt(RuleEmitter &e) {
  Value half = e.mul(e.ct, e.constant(0.5));
  return {e.quotientWhere(positive(e, e.in(0)), half, e.result)};
}
/// 0 at 0 and below. Divided last: near 0 the quotient of the result alone is
/// infinite, and the cotangent may be 0.
static Values pullRsqrt(RuleEmitter &e) {
  Value scaled = e.mul(e.mul(e.ct, e.constant(-0.5)), e.result);
  return {e.quotientWhere(positive(e, e.in(0)), scaled, e.in(0))};
}
/// 0 at 0.
static Values pullCbrt(RuleEmitter &e) {
  Value square = e.mul(e.mul(e.result, e.result), e.constant(3.0));
  return {e.quotientWhere(nonzero(e, e.in(0)), e.ct, square)};
}

/// exponent * x^(exponent - 1) as exponent * result / x, divided last as in the
/// rule of rsqrt. At x = 0: the cotangent itself for exponent 1, else 0.
static Value pullBase(RuleEmitter &e, Value x, Value exponent) {
  Value safe = e.select(nonzero(e, x), x, e.constant(1.0));
  Value scaled = e.mul(e.mul(e.ct, exponent), e.result);
  Value atZero = e.where(e.equal(exponent, e.constant(1.0)), e.ct);
  return e.select(nonzero(e, x), e.div(scaled, safe), atZero);
}

/// The exponent's cotangent, ct * result * ln(x), is 0 for x <= 0: 0^p is
/// constant in p > 0, and x^p has no neighbours in p for x < 0.
static Values pullPow(RuleEmitter &e) {
  Value domain = positive(e, e.in(0));
  Value safe = e.select(domain, e.in(0), e.constant(1.0));
  Value slope = e.mul(e.result, unary<math::LogOp>(e, safe));
  return {pullBase(e, e.in(0), e.in(1)), e.where(domain, e.mul(e.ct, slope))};
}
static Values pullFPowI(RuleEmitter &e) {
  Value exponent =
      arith::SIToFPOp::create(e.builder, e.loc, e.result.getType(), e.in(1));
  return {pullBase(e, e.in(0), exponent), Value()};
}

//===----------------------------------------------------------------------===//
// Trigonometric and hyperbolic functions
//===----------------------------------------------------------------------===//

static Values pullSin(RuleEmitter &e) {
  return {e.mul(e.ct, unary<math::CosOp>(e, e.in(0)))};
}
static Values pullCos(RuleEmitter &e) {
  return {e.neg(e.mul(e.ct, unary<math::SinOp>(e, e.in(0))))};
}
static Values pullTan(RuleEmitter &e) {
  Value square = e.mul(e.result, e.result);
  return {e.mul(e.ct, e.add(square, e.constant(1.0)))};
}
static Values pullSinh(RuleEmitter &e) {
  return {e.mul(e.ct, unary<math::CoshOp>(e, e.in(0)))};
}
static Values pullCosh(RuleEmitter &e) {
  return {e.mul(e.ct, unary<math::SinhOp>(e, e.in(0)))};
}
static Values pullTanh(RuleEmitter &e) {
  Value square = e.mul(e.result, e.result);
  return {e.mul(e.ct, e.sub(e.constant(1.0), square))};
}

/// ct / sqrt(radicand), 0 where that is not positive.
static Value pullArc(RuleEmitter &e, Value radicand) {
  Value domain = positive(e, radicand);
  Value safe = e.select(domain, radicand, e.constant(1.0));
  return e.where(domain, e.div(e.ct, unary<math::SqrtOp>(e, safe)));
}
/// (1 - x) (1 + x), exact near the ends.
static Value oneMinusSquare(RuleEmitter &e) {
  Value one = e.constant(1.0);
  return e.mul(e.sub(one, e.in(0)), e.add(one, e.in(0)));
}
/// 0 at -1 and 1 and beyond.
static Values pullAsin(RuleEmitter &e) {
  return {pullArc(e, oneMinusSquare(e))};
}
static Values pullAcos(RuleEmitter &e) {
  return {e.neg(pullArc(e, oneMinusSquare(e)))};
}
static Values pullAsinh(RuleEmitter &e) {
  Value square = e.mul(e.in(0), e.in(0));
  return {pullArc(e, e.add(square, e.constant(1.0)))};
}
/// 0 at 1 and below.
static Values pullAcosh(RuleEmitter &e) {
  Value one = e.constant(1.0);
  Value radicand = e.mul(e.sub(e.in(0), one), e.add(e.in(0), one));
  return {e.where(e.less(one, e.in(0)), pullArc(e, radicand))};
}
/// 0 at -1 and 1.
static Values pullAtanh(RuleEmitter &e) {
  Value divisor = oneMinusSquare(e);
  return {e.quotientWhere(nonzero(e, divisor), e.ct, divisor)};
}
static Values pullAtan(RuleEmitter &e) {
  Value square = e.mul(e.in(0), e.in(0));
  return {e.div(e.ct, e.add(square, e.constant(1.0)))};
}
/// atan2(y, x): 0 at the origin.
static Values pullAtan2(RuleEmitter &e) {
  Value y = e.in(0), x = e.in(1);
  Value norm = e.add(e.mul(x, x), e.mul(y, y));
  Value q = e.quotientWhere(nonzero(e, norm), e.ct, norm);
  return {e.mul(q, x), e.neg(e.mul(q, y))};
}

/// 2 / sqrt(pi) exp(-x^2).
static Value erfSlope(RuleEmitter &e) {
  Value minus = e.neg(e.mul(e.in(0), e.in(0)));
  return e.mul(e.constant(2.0 * std::numbers::inv_sqrtpi),
               unary<math::ExpOp>(e, minus));
}
static Values pullErf(RuleEmitter &e) { return {e.mul(e.ct, erfSlope(e))}; }
static Values pullErfc(RuleEmitter &e) {
  return {e.neg(e.mul(e.ct, erfSlope(e)))};
}

void sextant::registerMathDerivatives(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    context->loadDialect<arith::ArithDialect>();
    attachRule<math::FloorOp, pullStep>(context);
    attachRule<math::CeilOp, pullStep>(context);
    attachRule<math::RoundOp, pullStep>(context);
    attachRule<math::RoundEvenOp, pullStep>(context);
    attachRule<math::TruncOp, pullStep>(context);
    attachRule<math::AbsFOp, pullAbs>(context);
    attachRule<math::CopySignOp, pullCopySign>(context);
    attachRule<math::ClampFOp, pullClamp>(context);
    attachRule<math::FmaOp, pullFma>(context);
    attachRule<math::ExpOp, pullExp>(context);
    attachRule<math::Exp2Op, pullExp2>(context);
    attachRule<math::ExpM1Op, pullExpM1>(context);
    attachRule<math::LogOp, pullLog>(context);
    attachRule<math::Log2Op, pullLog2>(context);
    attachRule<math::Log10Op, pullLog10>(context);
    attachRule<math::Log1pOp, pullLog1p>(context);
    attachRule<math::SqrtOp, pullSqrt>(context);
    attachRule<math::RsqrtOp, pullRsqrt>(context);
    attachRule<math::CbrtOp, pullCbrt>(context);
    attachRule<math::PowFOp, pullPow>(context);
    attachRule<math::FPowIOp, pullFPowI>(context);
    attachRule<math::SinOp, pullSin>(context);
    attachRule<math::CosOp, pullCos>(context);
    attachRule<math::TanOp, pullTan>(context);
    attachRule<math::SinhOp, pullSinh>(context);
    attachRule<math::CoshOp, pullCosh>(context);
    attachRule<math::TanhOp, pullTanh>(context);
    attachRule<math::AsinOp, pullAsin>(context);
    attachRule<math::AcosOp, pullAcos>(context);
    attachRule<math::AtanOp, pullAtan>(context);
    attachRule<math::Atan2Op, pullAtan2>(context);
    attachRule<math::AsinhOp, pullAsinh>(context);
    attachRule<math::AcoshOp, pullAcosh>(context);
    attachRule<math::AtanhOp, pullAtanh>(context);
    attachRule<math::ErfOp, pullErf>(context);
    attachRule<math::ErfcOp, pullErfc>(context);
  });
}
