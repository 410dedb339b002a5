//===- PayloadMath.cpp - Functions of payloads by instructions ------------===//

#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using llvm::numbers::ln2;
using llvm::numbers::log2e;
using llvm::numbers::pi;

/// Below it three terms of tanh x are off by 2^-22 of it, and from there on
/// what exponentials are off by is 2^-19 of it.
static constexpr double smallTanh = 0x1p-3;
/// Below it four terms of log(1 + x) are off by 2^-22 of it, and from there on
/// 1 + x and its logarithm by 2^-17.
static constexpr double smallLog1p = 0x1p-5;
/// Added to a number, and taken off again, it leaves the next whole one.
static constexpr double rounder = 0x1.8p23;

//===----------------------------------------------------------------------===//
// What may be off
//===----------------------------------------------------------------------===//

/// By a flag that says so of functions, and is set for products and quotients,
/// too.
static void allowErrorsOf(Operation *op) {
  auto math = dyn_cast_or_null<arith::ArithFastMathInterface>(op);
  if (!math || !isa<arith::DivFOp, arith::MulFOp, math::CosOp, math::ExpOp,
                    math::Log1pOp, math::LogOp, math::PowFOp, math::SinOp,
                    math::SqrtOp, math::TanhOp>(op))
    return;
  arith::FastMathFlags flags = math.getFastMathFlagsAttr().getValue();
  op->setAttr(math.getFastMathAttrName(),
              arith::FastMathFlagsAttr::get(op->getContext(),
                                            flags | arith::FastMathFlags::afn));
}

void codegen::allowErrorsOf(Value number) {
  SetVector<Operation *> users;
  getForwardSlice(number, &users);
  ::allowErrorsOf(number.getDefiningOp());
  for (Operation *op : users)
    ::allowErrorsOf(op);
}

static bool mayBeOff(Operation *op) {
  auto math = dyn_cast<arith::ArithFastMathInterface>(op);
  return math && bitEnumContainsAny(math.getFastMathFlagsAttr().getValue(),
                                    arith::FastMathFlags::afn);
}

/// Folds what pullbacks ask of constants, such as whether a divisor is zero.
static void foldChoices(ThreadBuilder &thread, Operation *function) {
  OpBuilder &builder = thread.kernel.builder;
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Operation *> found;
  function->walk([&](Operation *op) {
    if (isa<arith::CmpFOp, arith::SelectOp>(op))
      found.push_back(op);
  });
  for (Operation *op : found) {
    builder.setInsertionPoint(op);
    SmallVector<Value> results;
    if (failed(builder.tryFold(op, results)) || results.empty())
      continue;
    op->replaceAllUsesWith(results);
    op->erase();
  }
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

static bool isNormal(double number) {
  return std::isnormal(static_cast<float>(number));
}

/// The constant that an op multiplies its first operand by, if it does and may
/// be off: n / 41 of a whole number is no product with 1 / 41.
static std::optional<double> getFactor(Operation *op) {
  FloatAttr constant;
  if (!isa<arith::MulFOp, arith::DivFOp>(op) || !mayBeOff(op) ||
      !matchPattern(op->getOperand(1), m_Constant(&constant)))
    return std::nullopt;
  double factor = constant.getValueAsDouble();
  if (isa<arith::DivFOp>(op))
    factor = 1.0 / factor;
  if (!isNormal(factor))
    return std::nullopt;
  return factor;
}

/// A number times a factor as another times another: what is a product with a
/// constant itself takes one.
static std::pair<Value, double> joinFactors(Value number, double factor) {
  Operation *inner = number.getDefiningOp();
  std::optional<double> more = inner ? getFactor(inner) : std::nullopt;
  if (!more || !isNormal(factor * *more))
    return {number, factor};
  return {inner->getOperand(0), factor * *more};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

namespace {

/// Writes what takes the place of ops; null where those stay. All kernels of an
/// attention take the same, so that their scores have the same bits.
class PayloadMath {
public:
  explicit PayloadMath(ThreadBuilder &thread)
      : thread(thread), kernel(thread.kernel), builder(kernel.builder),
        loc(kernel.loc) {}

  Value replace(Operation *op);

private:
  Value call(StringRef name, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(
               builder, loc, kernel.f32,
               builder.getStringAttr("llvm.nvvm." + name), arguments)
        .getResult(0);
  }
  Value constant(double value) { return kernel.constantF32(value); }
  Value size(Value x) { return math::AbsFOp::create(builder, loc, x); }
  Value isLess(Value x, double bound) {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, x,
                                 constant(bound));
  }
  /// A number times a factor.
  Value scale(Value number, double factor) {
    auto [joined, all] = joinFactors(number, factor);
    Value product = kernel.mulF(joined, constant(all));
    ::allowErrorsOf(product.getDefiningOp());
    return product;
  }
  /// 2^(-2 |x| log2(e)).
  Value emitFraction(Value x);
  Value log2(Value x) { return call("lg2.approx.ftz.f", x); }
  Value tanh(math::TanhOp op);
  Value log1p(Value x);
  Value divide(arith::DivFOp op);
  Value power(math::PowFOp op);
  /// An angle between -pi and pi, as many turns away.
  Value reduce(Value angle);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  OpBuilder &builder;
  Location loc;
};

} // namespace

Value PayloadMath::emitFraction(Value x) {
  auto [number, factor] = joinFactors(x, -2 * log2e);
  return thread.exp2(kernel.mulF(size(number), constant(-std::fabs(factor))));
}

/// The values 1 - t^2.
static SmallVector<arith::SubFOp> findSlopes(Value t) {
  SmallVector<arith::SubFOp> slopes;
  for (Operation *user : t.getUsers()) {
    auto square = dyn_cast<arith::MulFOp>(user);
    if (!square || square.getLhs() != square.getRhs())
      continue;
    for (Operation *next : square->getUsers())
      if (auto slope = dyn_cast<arith::SubFOp>(next))
        if (slope.getRhs() == square &&
            matchPattern(slope.getLhs(), m_OneFloat()) &&
            !llvm::is_contained(slopes, slope))
          slopes.push_back(slope);
  }
  return slopes;
}

Value PayloadMath::tanh(math::TanhOp op) {
  SmallVector<arith::SubFOp> slopes = findSlopes(op.getResult());
  Value x = op.getOperand(), one = constant(1);
  Value result, sum, fraction; // sum: 1 + |tanh x|
  // A rounding to f16 moves a number by half of what the instruction is off by.
  if (mayBeOff(op) && !thread.element.isF16()) {
    result = thread.tanh(x);
    if (slopes.empty())
      return result;
    fraction = emitFraction(x);
    sum = kernel.addF(size(result), one);
  } else {
    fraction = emitFraction(x);
    Value half = constant(0.5);
    sum = thread.reciprocal(kernel.fma(fraction, half, half));
    Value large =
        math::CopySignOp::create(builder, loc, kernel.subF(sum, one), x);
    Value square = kernel.mulF(x, x);
    Value factor = kernel.fma(square, constant(2.0 / 15), constant(-1.0 / 3));
    Value small = kernel.fma(kernel.mulF(square, x), factor, x);
    result = kernel.selectF(isLess(size(x), smallTanh), small, large);
  }
  for (arith::SubFOp slope : slopes)
    slope.replaceAllUsesWith(kernel.mulF(kernel.mulF(fraction, sum), sum));
  return result;
}

Value PayloadMath::log1p(Value x) {
  Value large = scale(log2(kernel.addF(x, constant(1))), ln2);
  Value factor = kernel.fma(x, constant(-1.0 / 4), constant(1.0 / 3));
  factor = kernel.fma(x, factor, constant(-1.0 / 2));
  Value small = kernel.fma(kernel.mulF(x, x), factor, x);
  return kernel.selectF(isLess(size(x), smallLog1p), small, large);
}

/// Pullbacks divide by one number twice or thrice. Of a divisor above 2^126 the
/// reciprocal is 0, as all is that a kernel has below 2^-126 (C7).
Value PayloadMath::divide(arith::DivFOp op) {
  if (std::optional<double> factor = getFactor(op))
    return scale(op.getLhs(), *factor);
  if (!mayBeOff(op))
    return {};
  Value reciprocal = thread.reciprocal(op.getRhs());
  return matchPattern(op.getLhs(), m_OneFloat())
             ? reciprocal
             : kernel.mulF(op.getLhs(), reciprocal);
}

/// |x|^y by logarithms. Of a whole y it has the sign of x^y, of others NaN
/// below 0.
Value PayloadMath::power(math::PowFOp op) {
  FloatAttr exponent;
  if (!matchPattern(op.getRhs(), m_Constant(&exponent)) ||
      !isNormal(exponent.getValueAsDouble()))
    return {};
  double y = exponent.getValueAsDouble();
  Value x = op.getLhs();
  Value result = thread.exp2(kernel.mulF(log2(size(x)), constant(y)));
  if (std::fmod(y, 2) == 0)
    return result;
  if (std::floor(y) == y)
    return math::CopySignOp::create(builder, loc, result, x);
  return kernel.selectF(isLess(x, 0), constant(NAN), result);
}

Value PayloadMath::reduce(Value angle) {
  Value turns = kernel.fma(angle, constant(0.5 / pi), constant(rounder));
  turns = kernel.subF(turns, constant(rounder));
  constexpr double high = static_cast<float>(2 * pi), low = 2 * pi - high;
  Value rest = kernel.fma(turns, constant(-high), angle);
  return kernel.fma(turns, constant(-low), rest);
}

Value PayloadMath::replace(Operation *op) {
  builder.setInsertionPoint(op);
  Value x = op->getOperand(0);
  if (auto product = dyn_cast<arith::MulFOp>(op)) {
    std::optional<double> factor = getFactor(product);
    return factor ? scale(x, *factor) : Value();
  }
  if (auto quotient = dyn_cast<arith::DivFOp>(op))
    return divide(quotient);
  if (auto own = dyn_cast<math::TanhOp>(op))
    return tanh(own);
  if (!mayBeOff(op))
    return {};
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::ExpOp>([&](auto) { return thread.exp2(scale(x, log2e)); })
      .Case<math::LogOp>([&](auto) { return scale(log2(x), ln2); })
      .Case<math::Log1pOp>([&](auto) { return log1p(x); })
      .Case<math::SqrtOp>([&](auto) { return call("sqrt.approx.ftz.f", x); })
      .Case<math::SinOp>(
          [&](auto) { return call("sin.approx.ftz.f", reduce(x)); })
      .Case<math::CosOp>(
          [&](auto) { return call("cos.approx.ftz.f", reduce(x)); })
      .Case<math::PowFOp>([&](math::PowFOp own) { return power(own); })
      .Default(Value());
}

void codegen::usePayloadInstructions(ThreadBuilder &thread) {
  OpBuilder &builder = thread.kernel.builder;
  Operation *function = builder.getInsertionBlock()->getParentOp();
  foldChoices(thread, function);
  SmallVector<Operation *> found;
  function->walk([&](Operation *op) {
    if (isa<arith::ArithFastMathInterface>(op) && op->getNumResults() == 1 &&
        op->getResult(0).getType().isF32())
      found.push_back(op);
  });
  OpBuilder::InsertionGuard guard(builder);
  PayloadMath math(thread);
  for (Operation *op : found) {
    Value result = math.replace(op);
    if (!result)
      continue;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}
