//===- ScoreTerms.cpp - What the last ops of a score payload add ----------===//
//
// The additions and subtractions at the end of a payload are taken apart from
// last to first, as long as just one side needs the score.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/ScoreTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Splits what a payload yields into a part that needs the score and terms that
/// do not, by what `needsScore` says of values.
static FailureOr<ScoreTerms> split(Block &payload,
                                   function_ref<bool(Value)> needsScore) {
  if (!isa<pos::ScoreOp, pos::ForHeadsOp>(payload.getParentOp()) ||
      payload.getNumArguments() != 1 ||
      !payload.getArgument(0).getType().isF32())
    return failure();
  ScoreTerms result;
  Value value = payload.getTerminator()->getOperand(0);
  while (Operation *op = value.getDefiningOp()) {
    if (auto add = dyn_cast<arith::AddFOp>(op)) {
      bool left = needsScore(add.getLhs()), right = needsScore(add.getRhs());
      if (left == right)
        break;
      result.terms.push_back({left ? add.getRhs() : add.getLhs()});
      value = left ? add.getLhs() : add.getRhs();
    } else if (auto sub = dyn_cast<arith::SubFOp>(op)) {
      if (needsScore(sub.getRhs()))
        break;
      result.terms.push_back({sub.getRhs(), /*isNegated=*/true});
      value = sub.getLhs();
    } else {
      break;
    }
  }
  if (!needsScore(value))
    return failure();
  result.core = value;
  std::reverse(result.terms.begin(), result.terms.end());
  return result;
}

FailureOr<ScoreTerms> passes::getScoreTerms(Block &payload,
                                            pos::Dependence &dependence) {
  return split(payload, [&](Value value) {
    return dependence.of(value).contains(pos::Axis::score);
  });
}

bool passes::isAdditive(Block &payload, pos::Dependence &dependence) {
  if (payload.getNumArguments() != 1)
    return false;
  Value score = payload.getArgument(0);
  FailureOr<ScoreTerms> found = split(
      payload, [&](Value value) { return dependence.isMadeOf(value, score); });
  return succeeded(found) && found->core == score;
}

Value passes::combine(OpBuilder &builder, Value value, ScoreTerm term) {
  Location loc = term.value.getLoc();
  if (term.isNegated)
    return arith::SubFOp::create(builder, loc, value, term.value);
  return arith::AddFOp::create(builder, loc, value, term.value);
}
