//===- FormPiecewiseLinear.cpp - Sums of rectified units become tables ----===//
//
// The pass recognises a `pos.sum` of a score whose term is p x + q + w max(l,
// r): one value x from outside the sum that varies with query and key, affine
// functions of it with coefficients that do not, and at most one maximum. The
// coefficients of the term become the body of a `pos.hinges`, built op by op
// along the term. A sum with any other term is left alone. Each `pos.for_heads`
// of a score of all heads is worked on like a payload of one head.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/HoistForm.h"
#include "passes/Encoding/Slices.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_FORMPIECEWISELINEAR
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;
using pos::Dependence;

/// Units of a function: its table is made by comparing each two.
static constexpr int64_t maxUnits = 1024;

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

namespace {
/// p x + q + w max(a x + b, 0). Null coefficients are zero; a, b have a meaning
/// where there is a w only.
struct Form {
  Value p, q, w, a, b;
};

/// Finds the form of the term of a sum and writes its coefficients.
class TermForm {
public:
  /// `builder` stands in the body of hinges; `unit` is its argument.
  TermForm(pos::SumOp sum, Value unit, Dependence &dependence,
           OpBuilder &builder)
      : body(sum.getBody().front()), payload(*sum->getBlock()),
        dependence(dependence), builder(builder) {
    coefficients.map(body.getArgument(0), unit);
  }

  FailureOr<Form> find(Value value);
  /// The scalar that the term is a function of; null before one is found.
  Value getArgument() const { return argument; }
  Value zeroIfNull(Value value, Location loc);

private:
  FailureOr<Value> findCoefficient(Value value);
  FailureOr<Form> findMaximum(arith::MaximumFOp op);
  FailureOr<Form> findProduct(arith::MulFOp op);
  FailureOr<Form> add(FailureOr<Form> left, FailureOr<Form> right,
                      bool isNegated, Location loc);
  Value addValues(Value left, Value right, bool isNegated, Location loc);
  Value multiply(Value left, Value right, Location loc);

  Block &body, &payload;
  Dependence &dependence;
  OpBuilder &builder;
  IRMapping coefficients;
  Value argument;
};
} // namespace

/// Clones what a coefficient is computed with, from the term or the payload.
FailureOr<Value> TermForm::findCoefficient(Value value) {
  if (Value known = coefficients.lookupOrNull(value))
    return known;
  if (isa<RankedTensorType>(value.getType()) && isa<BlockArgument>(value))
    return value;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0 || op->getNumResults() != 1)
    return failure();
  bool isOutside = op->getBlock() != &body && op->getBlock() != &payload;
  if (isOutside && !op->hasTrait<OpTrait::ConstantLike>())
    return failure();
  for (Value operand : op->getOperands()) {
    FailureOr<Value> cloned = findCoefficient(operand);
    if (failed(cloned))
      return failure();
    coefficients.map(operand, *cloned);
  }
  Value result = builder.clone(*op, coefficients)->getResult(0);
  coefficients.map(value, result);
  return result;
}

Value TermForm::addValues(Value left, Value right, bool isNegated,
                          Location loc) {
  if (!right)
    return left;
  if (!left)
    return isNegated ? arith::NegFOp::create(builder, loc, right).getResult()
                     : right;
  return isNegated
             ? arith::SubFOp::create(builder, loc, left, right).getResult()
             : arith::AddFOp::create(builder, loc, left, right).getResult();
}

Value TermForm::multiply(Value left, Value right, Location loc) {
  if (!left || !right)
    return {};
  if (matchPattern(left, m_OneFloat()))
    return right;
  if (matchPattern(right, m_OneFloat()))
    return left;
  return arith::MulFOp::create(builder, loc, left, right);
}

Value TermForm::zeroIfNull(Value value, Location loc) {
  if (value)
    return value;
  return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0.0));
}

FailureOr<Form> TermForm::add(FailureOr<Form> left, FailureOr<Form> right,
                              bool isNegated, Location loc) {
  if (failed(left) || failed(right) || (left->w && right->w))
    return failure();
  Form sum;
  sum.p = addValues(left->p, right->p, isNegated, loc);
  sum.q = addValues(left->q, right->q, isNegated, loc);
  sum.w = addValues(left->w, right->w, isNegated, loc);
  sum.a = left->w ? left->a : right->a;
  sum.b = left->w ? left->b : right->b;
  return sum;
}

/// max(l, r) = r + max(l - r, 0).
FailureOr<Form> TermForm::findMaximum(arith::MaximumFOp op) {
  Location loc = op.getLoc();
  FailureOr<Form> left = find(op.getLhs()), right = find(op.getRhs());
  if (failed(left) || failed(right) || left->w || right->w)
    return failure();
  Form form = *right;
  form.w = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
  form.a = addValues(left->p, right->p, /*isNegated=*/true, loc);
  form.b = addValues(left->q, right->q, /*isNegated=*/true, loc);
  return form;
}

FailureOr<Form> TermForm::findProduct(arith::MulFOp op) {
  Location loc = op.getLoc();
  FailureOr<Form> left = find(op.getLhs()), right = find(op.getRhs());
  if (failed(left) || failed(right))
    return failure();
  auto isCoefficient = [](const Form &form) { return !form.p && !form.w; };
  if (!isCoefficient(*left))
    std::swap(left, right);
  if (!isCoefficient(*left))
    return failure();
  Form form = *right;
  for (Value *scaled : {&form.p, &form.q, &form.w})
    *scaled = multiply(left->q, *scaled, loc);
  return form;
}

FailureOr<Form> TermForm::find(Value value) {
  if (AxisSet{Axis::batch, Axis::head}.contains(dependence.of(value))) {
    FailureOr<Value> coefficient = findCoefficient(value);
    if (failed(coefficient))
      return failure();
    bool isZero = matchPattern(*coefficient, m_AnyZeroFloat());
    return isZero ? Form() : Form{{}, *coefficient, {}, {}, {}};
  }
  if (value.getParentBlock() != &body) {
    if (dependence.of(value).intersects({Axis::score, Axis::row}) ||
        value.getParentBlock() != &payload || !value.getType().isF32() ||
        (argument && argument != value))
      return failure();
    argument = value;
    Value one = arith::ConstantOp::create(builder, value.getLoc(),
                                          builder.getF32FloatAttr(1.0));
    return Form{one, {}, {}, {}, {}};
  }
  Operation *op = value.getDefiningOp();
  if (auto maximum = dyn_cast_or_null<arith::MaximumFOp>(op))
    return findMaximum(maximum);
  if (auto product = dyn_cast_or_null<arith::MulFOp>(op))
    return findProduct(product);
  if (isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op))
    return add(find(op->getOperand(0)), find(op->getOperand(1)),
               isa<arith::SubFOp>(op), op->getLoc());
  if (isa_and_nonnull<arith::NegFOp>(op))
    return add(Form(), find(op->getOperand(0)), /*isNegated=*/true,
               op->getLoc());
  return failure();
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Makes x = n / d, with d kept outside tiles, n times 1 / d.
static Value divideOutside(Value argument, Dependence &dependence) {
  auto quotient = argument.getDefiningOp<arith::DivFOp>();
  if (!quotient || !isKeptOutsideTiles(dependence.of(quotient.getRhs())))
    return argument;
  Location loc = quotient.getLoc();
  OpBuilder builder(quotient);
  Value one =
      arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1.0));
  Value inverse = arith::DivFOp::create(builder, loc, one, quotient.getRhs());
  return arith::MulFOp::create(builder, loc, quotient.getLhs(), inverse);
}

/// Replaces the sum if it is one of units. Gives whether it is.
static bool rewrite(pos::SumOp sum, pos::ScoreOp site, Dependence &dependence) {
  APInt count;
  if (!matchPattern(sum.getCount(), m_ConstantInt(&count)) || count.slt(1) ||
      count.sgt(maxUnits) || isKeptOutsideTiles(dependence.of(sum)))
    return false;
  Location loc = sum.getLoc();
  OpBuilder builder(site);
  auto type =
      RankedTensorType::get({count.getSExtValue(), 5}, builder.getF32Type());
  auto hinges = pos::HingesOp::create(builder, loc, type);
  Block *units =
      builder.createBlock(&hinges.getBody(), {}, {builder.getI32Type()}, {loc});
  TermForm term(sum, units->getArgument(0), dependence, builder);
  FailureOr<Form> form =
      term.find(sum.getBody().front().getTerminator()->getOperand(0));
  // A kernel does not have the arguments of the payload where it computes x.
  if (failed(form) || !form->w || !form->a || !term.getArgument() ||
      dependence.isMadeOf(term.getArgument(),
                          sum->getBlock()->getArguments())) {
    hinges.erase();
    return false;
  }
  SmallVector<Value> yielded;
  for (Value coefficient : {form->p, form->q, form->w, form->a, form->b})
    yielded.push_back(term.zeroIfNull(coefficient, loc));
  pos::YieldOp::create(builder, loc, yielded);
  eraseDead(*units);

  builder.setInsertionPoint(sum);
  Value argument = divideOutside(term.getArgument(), dependence);
  sum.getResult().replaceAllUsesWith(
      pos::HingeSumOp::create(builder, loc, builder.getF32Type(), hinges,
                              argument)
          .getResult());
  sum.erase();
  return true;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
/// Rewrites the sums of each score.
struct FormPiecewiseLinear
    : passes::impl::FormPiecewiseLinearBase<FormPiecewiseLinear> {
  using FormPiecewiseLinearBase::FormPiecewiseLinearBase;

  void runOnOperation() override {
    if (failed(requireStage(getOperation(), Stage::Fused, getArgument())))
      return signalPassFailure();
    SmallVector<pos::ScoreOp> scores;
    getOperation()->walk([&](pos::ScoreOp score) {
      if (isa<pos::AttentionOp, pos::AttentionBackwardOp>(score->getParentOp()))
        scores.push_back(score);
    });
    for (pos::ScoreOp score : scores)
      runOnScore(score);
  }

private:
  void runOnScore(pos::ScoreOp score) {
    Block &payload = score.getPayload();
    SmallVector<Block *> blocks;
    if (payload.getArgument(0).getType().isF32())
      blocks.push_back(&payload);
    for (auto atHeads : payload.getOps<pos::ForHeadsOp>()) {
      moveScalarsIn(atHeads, payload);
      blocks.push_back(&atHeads.getBody().front());
    }
    bool hasSums = false;
    unsigned count = 0;
    for (Block *block : blocks) {
      SmallVector<pos::SumOp> sums(block->getOps<pos::SumOp>());
      for (pos::SumOp sum : sums) {
        moveInvariantsOut(sum);
        Dependence dependence(
            cast<pos::SitesOwnerInterface>(score->getParentOp()));
        count += rewrite(sum, score, dependence);
      }
      if (!sums.empty())
        eraseDead(*block);
      hasSums |= !sums.empty();
    }
    eraseDead(payload);
    if (!hasSums)
      return;
    numSums += count;
    remark::passed(
        score->getParentOp()->getLoc(),
        remark::RemarkOpts::name("rewritten").category(getArgument()))
        << remark::metric("Sums", count);
  }
};
} // namespace
