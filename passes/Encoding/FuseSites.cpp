//===- FuseSites.cpp - Composes score payloads and conjoins masks ---------===//
//
// The payloads f and g of two scores become one, g(f(s)), and those of two
// masks f and g become "f and g". A site is merged into the next of its kind,
// so that everything its payload uses still stands before it. A scalar score
// beside a score of all heads becomes one of all heads first: its payload at
// every head. Row maps stay, but for those that change no row: kernels copy
// mapped rows.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_FUSESITES
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

/// Moves the payload of `first` to the front of `second`'s and gives what it
/// yielded.
static SmallVector<Value> takePayload(pos::SiteOpInterface first,
                                      pos::SiteOpInterface second) {
  Block &from = first.getPayload(), &to = second.getPayload();
  Operation *yield = from.getTerminator();
  SmallVector<Value> yielded = llvm::to_vector(yield->getOperands());
  yield->erase();
  to.getOperations().splice(to.begin(), from.getOperations());
  return yielded;
}

/// second(first(s)).
static void compose(pos::ScoreOp first, pos::ScoreOp second) {
  BlockArgument inner = first.getPayload().getArgument(0);
  BlockArgument outer = second.getPayload().getArgument(0);
  Value between = takePayload(first, second).front();
  if (between != inner)
    outer.replaceAllUsesWith(between);
  inner.replaceAllUsesWith(outer);
  first.erase();
}

static Type getScoreType(pos::ScoreOp score) {
  return score.getPayload().getArgument(0).getType();
}

/// What scans keys or reads a row has no form for all heads.
static LogicalResult checkIsWidened(pos::ScoreOp scalar, pos::ScoreOp all) {
  WalkResult result = scalar.walk([&](Operation *op) {
    auto payloadOp = dyn_cast<pos::PayloadOpInterface>(op);
    if (!payloadOp || !payloadOp.isOfOneHead())
      return WalkResult::advance();
    op->emitOpError("has no kernel beside a score of all heads")
            .attachNote(all.getLoc())
        << "this score sees all heads";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// A scalar score as a score of all heads, of type `heads`.
static pos::ScoreOp widen(pos::ScoreOp scalar, Type heads) {
  OpBuilder builder(scalar);
  Location loc = scalar.getLoc();
  auto score = pos::ScoreOp::create(builder, loc);
  Block *payload = builder.createBlock(&score.getBody(), {}, heads, loc);
  auto atHeads =
      pos::ForHeadsOp::create(builder, loc, heads, payload->getArgument(0));
  atHeads.getBody().takeBody(scalar.getBody());
  pos::YieldOp::create(builder, loc, atHeads.getResult());
  scalar.erase();
  return score;
}

/// first and second.
static void conjoin(pos::MaskOp first, pos::MaskOp second) {
  Value condition = takePayload(first, second).front();
  Operation *yield = second.getPayload().getTerminator();
  OpBuilder builder(yield);
  yield->setOperand(0, arith::AndIOp::create(builder, yield->getLoc(),
                                             condition, yield->getOperand(0)));
  first.erase();
}

/// What a choice with a known condition chooses.
static Value getChosen(Value value) {
  while (auto select = value.getDefiningOp<arith::SelectOp>()) {
    APInt condition;
    if (!matchPattern(select.getCondition(), m_ConstantInt(&condition)))
      break;
    value = condition.isZero() ? select.getFalseValue() : select.getTrueValue();
  }
  return value;
}

/// Whether a row map has no lanes or yields what it is given. The range of
/// lanes (0, 0) is the whole row.
static bool changesNothing(pos::RowsOp rows) {
  APInt begin, end;
  if (rows.getBegin() && matchPattern(rows.getBegin(), m_ConstantInt(&begin)) &&
      matchPattern(rows.getEnd(), m_ConstantInt(&end)) && begin == end &&
      !begin.isZero())
    return true;
  Block &payload = rows.getBody().front();
  auto yielded = llvm::map_range(payload.getTerminator()->getOperands(),
                                 [](Value value) { return getChosen(value); });
  return llvm::equal(yielded, payload.getArguments());
}

/// Gives the number of row maps that were erased.
static unsigned eraseRows(Block &sites) {
  unsigned erased = 0;
  for (auto rows : llvm::make_early_inc_range(sites.getOps<pos::RowsOp>()))
    if (changesNothing(rows)) {
      rows.erase();
      ++erased;
    }
  return erased;
}

namespace {
/// Fuses the sites of one owner after the other.
struct FuseSites : passes::impl::FuseSitesBase<FuseSites> {
  using FuseSitesBase::FuseSitesBase;

  void runOnOperation() override {
    if (failed(passes::requireStage(getOperation(), passes::Stage::Inlined,
                                    getArgument())))
      return signalPassFailure();
    SmallVector<pos::SitesOwnerInterface> owners;
    getOperation()->walk([&](pos::SitesOwnerInterface owner) {
      if (!owner.getSitesRegion().empty())
        owners.push_back(owner);
    });
    for (pos::SitesOwnerInterface owner : owners) {
      unsigned rows = eraseRows(owner.getSitesRegion().front());
      auto fused = fuse(owner.getSitesRegion().front());
      if (failed(fused))
        return signalPassFailure();
      auto [scores, masks] = *fused;
      numScores += scores;
      numMasks += masks;
      numRows += rows;
      remark::passed(owner.getLoc(),
                     remark::RemarkOpts::name("fused").category(getArgument()))
          << remark::metric("Scores", scores) << remark::metric("Masks", masks)
          << remark::metric("ErasedRows", rows);
    }
  }

private:
  /// Gives the numbers of scores and masks that were merged into another.
  FailureOr<std::pair<unsigned, unsigned>> fuse(Block &sites) {
    unsigned scores = 0, masks = 0;
    pos::ScoreOp score;
    pos::MaskOp mask;
    for (Operation &op : llvm::make_early_inc_range(sites)) {
      if (auto next = dyn_cast<pos::ScoreOp>(op)) {
        if (score) {
          if (isa<RankedTensorType>(getScoreType(next)) &&
              getScoreType(score).isF32()) {
            if (failed(checkIsWidened(score, next)))
              return failure();
            score = widen(score, getScoreType(next));
          } else if (isa<RankedTensorType>(getScoreType(score)) &&
                     getScoreType(next).isF32()) {
            if (failed(checkIsWidened(next, score)))
              return failure();
            next = widen(next, getScoreType(score));
          }
          compose(score, next);
          ++scores;
        }
        score = next;
      } else if (auto next = dyn_cast<pos::MaskOp>(op)) {
        if (mask) {
          conjoin(mask, next);
          ++masks;
        }
        mask = next;
      }
    }
    return std::pair(scores, masks);
  }
};
} // namespace
