//===- PayloadMath.cpp - Functions of payloads by instructions ------------===//

#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using llvm::numbers::log2e;

/// Of a number below it tanh is the number but for 2^-15 of it, and what is
/// computed by exponentials is off by as much.
static constexpr double smallTanh = 0x1p-7;

void codegen::allowErrorsOf(Value score) {
  SetVector<Operation *> users;
  getForwardSlice(score, &users);
  for (Operation *op : users)
    if (auto tanh = dyn_cast<math::TanhOp>(op))
      tanh.setFastmath(tanh.getFastmath() | arith::FastMathFlags::afn);
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

/// The constant that an op multiplies its first operand by, or nothing: one
/// that is divided by has no reciprocal, for instance.
static std::optional<double> getFactor(Operation *op) {
  FloatAttr constant;
  if (!isa<arith::MulFOp, arith::DivFOp>(op) ||
      !matchPattern(op->getOperand(1), m_Constant(&constant)))
    return std::nullopt;
  double factor = constant.getValueAsDouble();
  if (isa<arith::DivFOp>(op))
    factor = 1.0 / factor;
  if (!std::isnormal(static_cast<float>(factor)))
    return std::nullopt;
  return factor;
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
            matchPattern(slope.getLhs(), m_OneFloat()))
          slopes.push_back(slope);
  }
  llvm::sort(slopes);
  slopes.erase(llvm::unique(slopes), slopes.end());
  return slopes;
}

/// A number times a factor as another times another: what is a product with a
/// constant itself takes one.
static std::pair<Value, double> joinFactors(Value number, double factor) {
  Operation *inner = number.getDefiningOp();
  std::optional<double> more = inner ? getFactor(inner) : std::nullopt;
  if (!more || !std::isnormal(static_cast<float>(factor * *more)))
    return {number, factor};
  return {inner->getOperand(0), factor * *more};
}

/// 2^(-2 |x| log2(e)).
static Value emitFraction(ThreadBuilder &thread, Value x) {
  KernelBuilder &kernel = thread.kernel;
  auto [number, factor] = joinFactors(x, -2 * log2e);
  Value size = math::AbsFOp::create(kernel.builder, kernel.loc, number);
  return thread.exp2(kernel.mulF(size, kernel.constantF32(-std::fabs(factor))));
}

static void useInstruction(ThreadBuilder &thread, math::TanhOp op) {
  KernelBuilder &kernel = thread.kernel;
  OpBuilder &builder = kernel.builder;
  SmallVector<arith::SubFOp> slopes = findSlopes(op.getResult());
  bool isExact =
      !bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::afn);
  Value x = op.getOperand();
  Value size = math::AbsFOp::create(builder, kernel.loc, x);
  Value one = kernel.constantF32(1);
  Value fraction, sum, result;
  if (isExact || !slopes.empty())
    fraction = emitFraction(thread, x);
  if (isExact) {
    Value half = kernel.constantF32(0.5);
    sum = thread.reciprocal(kernel.fma(fraction, half, half));
    Value large =
        math::CopySignOp::create(builder, kernel.loc, kernel.subF(sum, one), x);
    Value isSmall =
        arith::CmpFOp::create(builder, kernel.loc, arith::CmpFPredicate::OLT,
                              size, kernel.constantF32(smallTanh));
    result = kernel.selectF(isSmall, x, large);
  } else {
    result = thread.tanh(x);
    if (!slopes.empty())
      sum = kernel.addF(math::AbsFOp::create(builder, kernel.loc, result), one);
  }
  if (!slopes.empty()) {
    Value slope = kernel.mulF(kernel.mulF(fraction, sum), sum);
    for (arith::SubFOp old : slopes)
      old.replaceAllUsesWith(slope);
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

/// One product for several, and for quotients. All kernels of an attention do
/// so, whoever else uses what lies between: their scores have the same bits.
static void useFactor(ThreadBuilder &thread, Operation *op) {
  std::optional<double> own = getFactor(op);
  if (!own)
    return;
  auto [number, factor] = joinFactors(op->getOperand(0), *own);
  op->getResult(0).replaceAllUsesWith(
      thread.kernel.mulF(number, thread.kernel.constantF32(factor)));
  op->erase();
}

void codegen::usePayloadInstructions(ThreadBuilder &thread) {
  OpBuilder &builder = thread.kernel.builder;
  Operation *function = builder.getInsertionBlock()->getParentOp();
  foldChoices(thread, function);
  SmallVector<Operation *> found;
  function->walk([&](Operation *op) {
    if (isa<math::TanhOp, arith::MulFOp, arith::DivFOp>(op) &&
        op->getResult(0).getType().isF32())
      found.push_back(op);
  });
  OpBuilder::InsertionGuard guard(builder);
  for (Operation *op : found) {
    builder.setInsertionPoint(op);
    if (auto tanh = dyn_cast<math::TanhOp>(op))
      useInstruction(thread, tanh);
    else
      useFactor(thread, op);
  }
}
