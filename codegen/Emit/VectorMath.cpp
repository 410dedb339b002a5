//===- VectorMath.cpp - Math ops on vectors as arithmetic -----------------===//

#include "codegen/Emit/VectorMath.h"
#include "codegen/Emit/VectorFunctions.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant::codegen;

/// The value that replaces an op with a vector result, or null.
static Value expand(Operation *op, VectorFunctions &f) {
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::ExpOp>([&](auto) { return f.exp(x); })
      .Case<math::Exp2Op>([&](auto) { return f.exp2(x); })
      .Case<math::ExpM1Op>([&](auto) { return f.expm1(x); })
      .Case<math::LogOp>([&](auto) { return f.log(x); })
      .Case<math::Log2Op>([&](auto) { return f.log2(x); })
      .Case<math::Log10Op>([&](auto) { return f.log10(x); })
      .Case<math::Log1pOp>([&](auto) { return f.log1p(x); })
      .Case<math::TanhOp>([&](auto) { return f.tanh(x); })
      .Case<math::SinhOp>([&](auto) { return f.sinh(x); })
      .Case<math::CoshOp>([&](auto) { return f.cosh(x); })
      .Case<math::AsinhOp>([&](auto) { return f.asinh(x); })
      .Case<math::AcoshOp>([&](auto) { return f.acosh(x); })
      .Case<math::AtanhOp>([&](auto) { return f.atanh(x); })
      .Case<math::SinOp>([&](auto) { return f.sin(x); })
      .Case<math::CosOp>([&](auto) { return f.cos(x); })
      .Case<math::TanOp>([&](auto) { return f.tan(x); })
      .Case<math::RoundOp>([&](auto) { return f.round(x); })
      .Case<math::PowFOp>(
          [&](math::PowFOp pow) { return f.pow(pow.getLhs(), pow.getRhs()); })
      .Default(Value());
}

/// x^n by the f64 power: exact for the exponents that occur.
static Value expandFPowI(math::FPowIOp op, OpBuilder &builder,
                         VectorFunctions &f, VectorType type) {
  Value exponent =
      arith::SIToFPOp::create(builder, op.getLoc(), type, op.getRhs());
  return f.pow(op.getLhs(), exponent);
}

/// Nothing lowers clampf, of scalars neither. NaN stays NaN.
static Value expandClamp(math::ClampFOp op, OpBuilder &builder) {
  Location loc = op.getLoc();
  auto chooseIfLess = [&](Value a, Value b, Value less, Value other) -> Value {
    Value isLess =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, a, b);
    return arith::SelectOp::create(builder, loc, isLess, less, other);
  };
  Value value = op.getValue(), low = op.getMin(), high = op.getMax();
  value = chooseIfLess(value, low, low, value);
  return chooseIfLess(high, value, high, value);
}

/// What VectorFunctions has not: inverses of circle functions, erf, cbrt.
static bool isRare(Operation *op) {
  static constexpr StringLiteral rare[] = {
      "math.atan", "math.atan2", "math.asin", "math.acos",
      "math.erf",  "math.erfc",  "math.cbrt"};
  return llvm::is_contained(rare, op->getName().getStringRef());
}

/// Gives ops of `math` on scalars vectors of one lane. Rare functions of f64
/// are calls in any case.
static void makeVectors(Operation *root) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa<math::MathDialect>(op->getDialect()) && op->getNumResults() == 1 &&
        (isa<Float32Type>(op->getResult(0).getType()) ||
         (isa<Float64Type>(op->getResult(0).getType()) && !isRare(op))))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    auto makeVector = [](Type type) { return VectorType::get({1}, type); };
    IRMapping vectors;
    for (Value operand : op->getOperands())
      if (!vectors.contains(operand))
        vectors.map(operand, vector::BroadcastOp::create(
                                 builder, op->getLoc(),
                                 makeVector(operand.getType()), operand));
    Operation *copy = builder.clone(*op, vectors);
    Value result = copy->getResult(0);
    result.setType(makeVector(result.getType()));
    Value scalar = vector::ExtractOp::create(builder, op->getLoc(), result, 0);
    op->replaceAllUsesWith(ValueRange{scalar});
    op->erase();
  }
}

void sextant::codegen::expandVectorMath(Operation *root, bool scalarsToo) {
  root->walk([](math::ClampFOp op) {
    OpBuilder builder(op);
    op.replaceAllUsesWith(expandClamp(op, builder));
    op.erase();
  });
  if (scalarsToo)
    makeVectors(root);
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa<math::MathDialect>(op->getDialect()) && op->getNumResults() == 1 &&
        isa<VectorType>(op->getResult(0).getType()))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    auto type = cast<VectorType>(op->getResult(0).getType());
    if (!type.getElementType().isF32() && !type.getElementType().isF64())
      continue;
    OpBuilder builder(op);
    VectorFunctions functions(builder, op->getLoc(), type);
    Value value;
    if (auto pow = dyn_cast<math::FPowIOp>(op))
      value = expandFPowI(pow, builder, functions, type);
    else
      value = expand(op, functions);
    if (!value)
      continue;
    op->replaceAllUsesWith(ValueRange{value});
    op->erase();
  }

  // What is left, of f32, by upstream's series.
  SmallVector<Operation *> left;
  root->walk([&](Operation *op) {
    if (isRare(op) && isa<VectorType>(op->getResult(0).getType()))
      left.push_back(op);
  });
  if (left.empty())
    return;
  RewritePatternSet patterns(root->getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
  (void)applyOpPatternsGreedily(left, std::move(patterns), config);
}
