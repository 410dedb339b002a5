//===- ArithDerivatives.cpp - Derivative rules of arith -------------------===//
//
// Each rule gives the gradients of the operands of z = f(x, y): dx = dz df/dx
// and dy = dz df/dy. Ops with integer results need no rule: no cotangent
// reaches them, and one that passes through a conversion from integers ends
// there.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/RuleEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sextant;

using Values = SmallVector<Value>;

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

static Values pullAdd(RuleEmitter &e) { return {e.ct, e.ct}; }
static Values pullSub(RuleEmitter &e) { return {e.ct, e.neg(e.ct)}; }
static Values pullNeg(RuleEmitter &e) { return {e.neg(e.ct)}; }
static Values pullMul(RuleEmitter &e) {
  return {e.mul(e.ct, e.in(1)), e.mul(e.ct, e.in(0))};
}

/// Zero through an integer.
static Values pullFromInteger(RuleEmitter &) { return {Value()}; }

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// Where the divisor is 0, both cotangents are 0.
static Values pullDiv(RuleEmitter &e) {
  Value regular =
      e.compare(arith::CmpFPredicate::UNE, e.in(1), e.constant(0.0));
  Value q = e.quotientWhere(regular, e.ct, e.in(1));
  return {q, e.where(regular, e.neg(e.mul(q, e.result)))};
}

/// a - trunc(a / b) b: the jumps have derivative 0; where b is 0, so has b.
static Values pullRem(RuleEmitter &e) {
  Value regular =
      e.compare(arith::CmpFPredicate::UNE, e.in(1), e.constant(0.0));
  Value ratio = e.quotientWhere(regular, e.in(0), e.in(1));
  Value whole = math::TruncOp::create(e.builder, e.loc, ratio);
  return {e.ct, e.neg(e.mul(e.ct, whole))};
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

static Values pullSelect(RuleEmitter &e) {
  Value zero = e.constant(0.0);
  return {Value(), e.select(e.in(0), e.ct, zero),
          e.select(e.in(0), zero, e.ct)};
}

/// The cotangent goes to the operand that was chosen; half to each of two
/// equal ones, as in PyTorch's maximum and minimum.
static Values pullChoice(RuleEmitter &e, Value isFirst, Value isSecond) {
  Value half = e.where(e.equal(e.in(0), e.in(1)), e.mul(e.ct, e.constant(0.5)));
  return {e.select(isFirst, e.ct, half), e.select(isSecond, e.ct, half)};
}
static Values pullMax(RuleEmitter &e) {
  return pullChoice(e, e.less(e.in(1), e.in(0)), e.less(e.in(0), e.in(1)));
}
static Values pullMin(RuleEmitter &e) {
  return pullChoice(e, e.less(e.in(0), e.in(1)), e.less(e.in(1), e.in(0)));
}

void sextant::registerArithDerivatives(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    // The rule of remf writes math ops.
    context->loadDialect<math::MathDialect>();
    attachRule<arith::AddFOp, pullAdd>(context);
    attachRule<arith::SubFOp, pullSub>(context);
    attachRule<arith::NegFOp, pullNeg>(context);
    attachRule<arith::MulFOp, pullMul>(context);
    attachRule<arith::DivFOp, pullDiv>(context);
    attachRule<arith::RemFOp, pullRem>(context);
    attachRule<arith::SelectOp, pullSelect>(context);
    attachRule<arith::MaximumFOp, pullMax>(context);
    attachRule<arith::MaxNumFOp, pullMax>(context);
    attachRule<arith::MinimumFOp, pullMin>(context);
    attachRule<arith::MinNumFOp, pullMin>(context);
    attachRule<arith::SIToFPOp, pullFromInteger>(context);
    attachRule<arith::UIToFPOp, pullFromInteger>(context);
  });
}
