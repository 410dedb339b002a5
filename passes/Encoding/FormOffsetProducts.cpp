//===- FormOffsetProducts.cpp - Products with one row per offset ----------===//
//
// The sum over columns c of <q, t_c> f_c(o), where q is the query row, t_c a
// column of a table and o the offset, is <q, sum_c t_c f_c(o)>: the product of
// the query row with one row per offset. So is <q, t_i>, and <k, t_i> of the
// key row, where the index i determines the offset, or does between two bounds
// that are far apart. All become `pos.offset_dot`. A remark says why another
// one stays.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "passes/Encoding/Slices.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_FORMOFFSETPRODUCTS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;
using pos::Dependence;

//===----------------------------------------------------------------------===//
// What a value may be made of
//===----------------------------------------------------------------------===//

namespace {
/// What is asked of the values of one attention.
class Facts {
public:
  explicit Facts(pos::SitesOwnerInterface owner)
      : params(owner.getSitesRegion().getArguments()), dependence(owner) {}

  /// Whether a value varies with these axes at most, and reads no parameter.
  bool variesAtMost(Value value, AxisSet axes) {
    return axes.contains(dependence.of(value)) &&
           !dependence.isMadeOf(value, params);
  }
  bool isMadeOf(Value value, Value part) {
    return dependence.isMadeOf(value, part);
  }
  bool tellsOffset(Value value);

private:
  ValueRange params;
  Dependence dependence;
};
} // namespace

/// Values between the bounds of an index, at least: products with all rows of a
/// smaller table are fewer than those of tiles with rows of offsets.
static constexpr int64_t leastRowsBetween = 128;

/// What a hoisted value is inside.
static Value lookInside(Value value) {
  if (auto hoist = value.getDefiningOp<pos::HoistOp>())
    return hoist.getBody().front().getTerminator()->getOperand(0);
  return value;
}

/// Takes the bounds off an integer that is clipped. Null where it has one bound
/// (beyond it the mask may leave few values), where they are no constants, or
/// so close to each other that it has few values.
static Value takeBoundsOff(Value value) {
  std::optional<int64_t> least, greatest;
  auto narrow = [](std::optional<int64_t> &bound, const APInt &constant,
                   bool isLeast) {
    int64_t next = constant.getSExtValue();
    if (bound)
      next = isLeast ? std::max(*bound, next) : std::min(*bound, next);
    bound = next;
  };
  while (true) {
    value = lookInside(value);
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<arith::MaxSIOp, arith::MinSIOp>(op))
      break;
    APInt constant;
    bool isRight =
        matchPattern(lookInside(op->getOperand(1)), m_ConstantInt(&constant));
    if (!isRight &&
        !matchPattern(lookInside(op->getOperand(0)), m_ConstantInt(&constant)))
      return {};
    bool isLeast = isa<arith::MaxSIOp>(op);
    narrow(isLeast ? least : greatest, constant, isLeast);
    value = op->getOperand(isRight ? 0 : 1);
  }
  if (!least && !greatest)
    return value;
  bool isFar = least && greatest && *greatest - *least >= leastRowsBetween;
  return isFar ? value : Value();
}

/// Whether no more than two offsets give an integer the same value: it is the
/// offset or its magnitude, with either sign, plus what is the same for all
/// scores. One that is divided has few values, and a table few rows.
bool Facts::tellsOffset(Value value) {
  value = lookInside(value);
  Operation *op = value.getDefiningOp();
  if (!op || !variesAtMost(value, Axis::offset))
    return false;
  if (isa<pos::OffsetOp>(op))
    return true;
  if (isa<math::AbsIOp>(op))
    return tellsOffset(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp>(op))
    return false;
  auto isSame = [&](Value operand) { return variesAtMost(operand, {}); };
  Value left = op->getOperand(0), right = op->getOperand(1);
  return (tellsOffset(left) && isSame(right)) ||
         (isSame(left) && tellsOffset(right));
}

//===----------------------------------------------------------------------===//
// Terms of sums
//===----------------------------------------------------------------------===//

namespace {
/// A factor of a term, or a divisor.
struct Factor {
  Value value;
  bool divides = false;
};

/// The product of a query row with a column, and what it is multiplied with.
struct Term {
  pos::QueryDotOp dot;
  SmallVector<Factor> factors; ///< from the product outwards
  bool isNegated = false;
};
} // namespace

/// The `pos.query_dot` that is inside a sum, or null where there is not one.
static pos::QueryDotOp getOnlyDot(pos::SumOp sum) {
  SmallVector<pos::QueryDotOp> dots;
  sum.walk([&](pos::QueryDotOp dot) { dots.push_back(dot); });
  return dots.size() == 1 ? dots.front() : pos::QueryDotOp();
}

/// Takes a term apart, from its last op to the product. Gives why it is none,
/// or nothing.
static StringRef takeApart(Value value, Term &term, Facts &facts) {
  Value dot = term.dot.getResult();
  bool isLast = true;
  while (value != dot) {
    Operation *op = value.getDefiningOp();
    if (!op || !facts.isMadeOf(value, dot) ||
        !isa<arith::MulFOp, arith::DivFOp, arith::NegFOp>(op))
      return "its term is no product of a 'pos.query_dot' and factors";
    if (!isLast && !value.hasOneUse())
      return "a part of its term's product has another use";
    isLast = false;
    if (isa<arith::NegFOp>(op)) {
      term.isNegated = !term.isNegated;
      value = op->getOperand(0);
      continue;
    }
    bool left = facts.isMadeOf(op->getOperand(0), dot);
    bool right = facts.isMadeOf(op->getOperand(1), dot);
    if (left && right)
      return "its term multiplies a 'pos.query_dot' with itself";
    bool divides = isa<arith::DivFOp>(op);
    if (divides && right)
      return "its term divides by a 'pos.query_dot'";
    term.factors.push_back({op->getOperand(left ? 1 : 0), divides});
    value = op->getOperand(left ? 0 : 1);
  }
  std::reverse(term.factors.begin(), term.factors.end());
  return isLast || dot.hasOneUse() ? StringRef()
                                   : "its 'pos.query_dot' has another use";
}

/// The factor of a column: the product of a term's, in their order.
static Value multiply(OpBuilder &builder, const Term &term, Location loc) {
  Value factor;
  auto one = [&] {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
  };
  for (auto [value, divides] : term.factors) {
    if (divides)
      factor =
          arith::DivFOp::create(builder, loc, factor ? factor : one(), value);
    else
      factor =
          factor ? arith::MulFOp::create(builder, loc, factor, value) : value;
  }
  if (!factor)
    factor = one();
  return term.isNegated ? arith::NegFOp::create(builder, loc, factor) : factor;
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

static bool readsParams(pos::RowDotOpInterface dot) {
  return isa<BlockArgument>(dot.getTable()) &&
         (!dot.getAddend() || isa<BlockArgument>(dot.getAddend()));
}

/// Gives why the sum stays, or nothing.
static StringRef rewriteSum(pos::SumOp sum, Facts &facts) {
  Block &body = sum.getBody().front();
  Term term;
  term.dot = getOnlyDot(sum);
  if (!term.dot)
    return "it has more than one 'pos.query_dot'";
  if (term.dot->getBlock() != &body || !term.dot.getColumns() ||
      term.dot.getIndex() != body.getArgument(0))
    return "its 'pos.query_dot' is not of the sum's own column";
  if (!readsParams(term.dot))
    return "its 'pos.query_dot' reads no parameter";
  if (!facts.variesAtMost(sum.getCount(), {}))
    return "its number of columns is not the same for all scores";
  Operation *yield = body.getTerminator();
  if (StringRef why = takeApart(yield->getOperand(0), term, facts);
      !why.empty())
    return why;
  for (const Factor &factor : term.factors)
    if (!facts.variesAtMost(factor.value, Axis::offset))
      return "a factor varies with more than column and offset, or reads a "
             "parameter";

  OpBuilder builder(sum);
  auto product = pos::OffsetDotOp::create(
      builder, sum.getLoc(), builder.getF32Type(), term.dot.getTable(), Value(),
      term.dot.getAddend(), sum.getCount(), /*columns=*/true, /*ofKey=*/false);
  product.getBody().takeBody(sum.getBody());
  builder.setInsertionPoint(yield);
  yield->setOperand(0, multiply(builder, term, sum.getLoc()));
  eraseDead(product.getBody().front());
  sum.getResult().replaceAllUsesWith(product.getResult());
  sum.erase();
  return {};
}

/// Gives why the product stays, or nothing. Its index may be clipped.
static StringRef rewriteProduct(pos::RowDotOpInterface dot, Facts &facts) {
  if (!readsParams(dot))
    return "it reads no parameter";
  Value index = takeBoundsOff(dot.getIndex());
  if (!index || !facts.tellsOffset(index))
    return "its index does not determine the offset";
  OpBuilder builder(dot);
  auto product = pos::OffsetDotOp::create(
      builder, dot.getLoc(), builder.getF32Type(), dot.getTable(),
      dot.getIndex(), dot.getAddend(), Value(), dot.getColumns(),
      dot.getSide() == pos::Side::key);
  dot->getResult(0).replaceAllUsesWith(product.getResult());
  dot->erase();
  return {};
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
/// Rewrites the sums and products of each score of one head.
struct FormOffsetProducts
    : passes::impl::FormOffsetProductsBase<FormOffsetProducts> {
  using FormOffsetProductsBase::FormOffsetProductsBase;

  void runOnOperation() override {
    if (failed(requireStage(getOperation(), Stage::Hoisted, getArgument())))
      return signalPassFailure();
    SmallVector<pos::ScoreOp> scores;
    getOperation()->walk([&](pos::ScoreOp score) {
      if (isa<pos::SitesOwnerInterface>(score->getParentOp()))
        scores.push_back(score);
    });
    for (pos::ScoreOp score : scores)
      runOnScore(score);
  }

private:
  void runOnScore(pos::ScoreOp score);
};
} // namespace

/// The sums and products that rows are in, in order.
static SmallVector<Operation *> findCandidates(pos::ScoreOp score) {
  SmallVector<Operation *> candidates;
  for (Operation &op : score.getPayload()) {
    WalkResult found =
        op.walk([](pos::QueryDotOp) { return WalkResult::interrupt(); });
    if (isa<pos::KeyDotOp, pos::QueryDotOp>(op) ||
        (isa<pos::SumOp>(op) && found.wasInterrupted()))
      candidates.push_back(&op);
  }
  return candidates;
}

void FormOffsetProducts::runOnScore(pos::ScoreOp score) {
  auto owner = cast<pos::SitesOwnerInterface>(score->getParentOp());
  SmallVector<Operation *> candidates = findCandidates(score);
  if (candidates.empty())
    return;
  unsigned sums = 0, products = 0;
  for (Operation *op : candidates) {
    Location loc = op->getLoc();
    auto sum = dyn_cast<pos::SumOp>(op);
    StringRef why = "positions are given: offsets have gaps";
    if (!owner.hasPositions()) {
      Facts facts(owner);
      why = sum ? rewriteSum(sum, facts)
                : rewriteProduct(cast<pos::RowDotOpInterface>(op), facts);
    }
    if (why.empty()) {
      ++(sum ? sums : products);
      continue;
    }
    ++numDeclined;
    remark::missed(loc,
                   remark::RemarkOpts::name("declined").category(getArgument()))
        << remark::reason("{0}", why.str());
  }
  numSums += sums;
  numProducts += products;
  remark::passed(owner.getLoc(),
                 remark::RemarkOpts::name("rewritten").category(getArgument()))
      << remark::metric("Sums", sums) << remark::metric("Products", products);
}
