//===- DropRowConstants.cpp - Drops terms that cancel in the softmax ------===//
//
// A term c that is the same for all keys of a row cancels in the softmax and
// shifts the log-sum-exp: softmax(s + c) = softmax(s), lse(s + c) = lse(s) + c.
// The pass looks at what the last ops of a score of one head add. Terms that a
// later op other than an addition would see are left alone, as are terms that
// vary with the key, and scores of all heads.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/ScoreTerms.h"
#include "passes/Encoding/Slices.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_DROPROWCONSTANTS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;
using pos::Dependence;

//===----------------------------------------------------------------------===//
// The parts of a row term
//===----------------------------------------------------------------------===//

/// The last op of its kind among the sites, or null.
template <typename OpTy> static OpTy getLast(Block &sites) {
  OpTy last;
  for (auto op : sites.getOps<OpTy>())
    last = op;
  return last;
}

/// What of a payload does not need the score, in order.
static SmallVector<Operation *> getIndependentOps(Block &payload,
                                                  Dependence &dependence) {
  SmallVector<Operation *> ops;
  for (Operation &op : payload.without_terminator())
    if (llvm::none_of(op.getResults(), [&](Value result) {
          return dependence.of(result).contains(Axis::score);
        }))
      ops.push_back(&op);
  return ops;
}

/// A value that a term is the value of, as it stands in another block.
static Value lookUp(OpBuilder &builder, Value value, IRMapping &mapping) {
  if (Value mapped = mapping.lookupOrNull(value))
    return mapped;
  // A constant of attention's own region; a hoist there is used as it is.
  Operation *op = value.getDefiningOp();
  if (op && op->hasTrait<OpTrait::ConstantLike>())
    return builder.clone(*op)->getResult(0);
  return value;
}

static ArrayAttr getAxesAttr(AxisSet set, MLIRContext *context) {
  SmallVector<Attribute> axes;
  for (Axis axis : {Axis::batch, Axis::head, Axis::query})
    if (set.contains(axis))
      axes.push_back(pos::AxisAttr::get(context, axis));
  return ArrayAttr::get(context, axes);
}

/// Gives running sums in a hoist hoists of their own: a kernel runs along the
/// keys for a running sum and nothing beside it.
static void separateRunningSums(pos::HoistOp hoist, Dependence &dependence) {
  Block &body = hoist.getBody().front();
  Value result = body.getTerminator()->getOperand(0);
  for (auto sum : body.getOps<pos::RunningSumOp>()) {
    Value value = sum.getResult();
    if (value == result)
      continue;
    OpBuilder builder(hoist);
    auto own = pos::HoistOp::create(
        builder, sum.getLoc(), value.getType(),
        getAxesAttr(dependence.of(value), builder.getContext()));
    builder.createBlock(&own.getBody());
    IRMapping mapping;
    for (Operation *op : getSlice(value, body, {}))
      builder.clone(*op, mapping);
    pos::YieldOp::create(builder, sum.getLoc(), mapping.lookup(value));
    value.replaceAllUsesWith(own.getResult());
  }
  eraseDead(body);
}

/// Before the score site, the hoist of the sum of terms, and of the row term
/// that there already is (or null).
static pos::HoistOp createHoist(pos::ScoreOp score, ArrayRef<ScoreTerm> terms,
                                pos::RowTermOp before, Dependence &dependence) {
  OpBuilder builder(score);
  // A row term is a vector over rows even where it is the same for all of them.
  AxisSet axes = Axis::query;
  for (const ScoreTerm &term : terms)
    axes |= dependence.of(term.value);
  if (before)
    axes |= before.getHoist().getAxisSet();
  Location loc = terms.front().value.getLoc();
  auto hoist = pos::HoistOp::create(builder, loc, builder.getF32Type(),
                                    getAxesAttr(axes, builder.getContext()));
  builder.createBlock(&hoist.getBody());
  IRMapping mapping;
  cloneSlice(builder, getIndependentOps(score.getPayload(), dependence), score,
             mapping);
  Value sum = before ? before.getTerm() : Value();
  for (ScoreTerm term : terms) {
    term.value = lookUp(builder, term.value, mapping);
    if (sum)
      sum = combine(builder, sum, term);
    else
      sum = term.isNegated
                ? arith::NegFOp::create(builder, loc, term.value).getResult()
                : term.value;
  }
  pos::YieldOp::create(builder, loc, sum);
  eraseDead(hoist.getBody().front());
  separateRunningSums(hoist, dependence);
  return hoist;
}

//===----------------------------------------------------------------------===//
// Dropping
//===----------------------------------------------------------------------===//

/// Gives the number of terms that left the last score site.
static unsigned dropTerms(pos::SitesOwnerInterface owner) {
  Block &sites = owner.getSitesRegion().front();
  auto score = getLast<pos::ScoreOp>(sites);
  if (!score)
    return 0;
  Dependence dependence(owner);
  FailureOr<ScoreTerms> found = getScoreTerms(score.getPayload(), dependence);
  if (failed(found))
    return 0;
  AxisSet rowAxes{Axis::batch, Axis::head, Axis::query};
  SmallVector<ScoreTerm> dropped, kept;
  for (ScoreTerm &term : found->terms)
    (rowAxes.contains(dependence.of(term.value)) ? dropped : kept)
        .push_back(term);
  if (dropped.empty())
    return 0;

  auto before = getLast<pos::RowTermOp>(sites);
  pos::HoistOp hoist = createHoist(score, dropped, before, dependence);
  OpBuilder builder(score);
  pos::RowTermOp::create(builder, hoist.getLoc(), hoist.getResult());
  if (before)
    before.erase();

  Block &payload = score.getPayload();
  Operation *yield = payload.getTerminator();
  builder.setInsertionPoint(yield);
  Value value = found->core;
  for (ScoreTerm &term : kept)
    value = combine(builder, value, term);
  yield->setOperand(0, value);
  eraseDead(payload);
  if (value == payload.getArgument(0))
    score.erase();
  return dropped.size();
}

namespace {
/// Moves the terms of one owner of sites after the other.
struct DropRowConstants : passes::impl::DropRowConstantsBase<DropRowConstants> {
  using DropRowConstantsBase::DropRowConstantsBase;

  void runOnOperation() override {
    if (failed(requireStage(getOperation(), Stage::Fused, getArgument())))
      return signalPassFailure();
    SmallVector<pos::SitesOwnerInterface> owners;
    getOperation()->walk([&](pos::SitesOwnerInterface owner) {
      if (owner.hasScores() && !owner.getSitesRegion().empty())
        owners.push_back(owner);
    });
    for (pos::SitesOwnerInterface owner : owners) {
      unsigned dropped = dropTerms(owner);
      numDropped += dropped;
      remark::passed(
          owner.getLoc(),
          remark::RemarkOpts::name("dropped").category(getArgument()))
          << remark::metric("Terms", dropped);
    }
  }
};
} // namespace
