//===- Stages.cpp - What may exist after each stage -----------------------===//

#include "passes/Verify/Stages.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;

static LogicalResult verifySiteResolved(pos::SiteOpInterface site) {
  if (failed(pos::detail::verifyOperandsConstant(site)))
    return failure();
  if (auto rows = dyn_cast<pos::RowsOp>(*site); rows && !rows.getGrouping())
    return rows.emitOpError("has no grouping after inlining (C6)");
  return success();
}

LogicalResult passes::verifyInlined(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) -> WalkResult {
    if (isa<pos::EncodingOp, pos::HostOp>(op))
      return op->emitOpError("is left after inlining");
    if (auto owner = dyn_cast<pos::SitesOwnerInterface>(op))
      if (owner.getPendingUses())
        return op->emitOpError("has uses of encodings after inlining");
    if (auto site = dyn_cast<pos::SiteOpInterface>(op))
      return verifySiteResolved(site);
    return success();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifySitesFused(Block &sites) {
  pos::MaskOp mask;
  pos::ScoreOp score;
  pos::RowTermOp term;
  auto report = [](Operation *op, Operation *first) -> LogicalResult {
    InFlightDiagnostic diag = op->emitOpError("is left after fusing");
    diag.attachNote(first->getLoc()) << "it belongs to this one";
    return diag;
  };
  for (Operation &op : sites) {
    if (auto next = dyn_cast<pos::MaskOp>(op)) {
      if (mask)
        return report(next, mask);
      mask = next;
    } else if (auto next = dyn_cast<pos::ScoreOp>(op)) {
      if (score)
        return report(next, score);
      score = next;
    } else if (auto next = dyn_cast<pos::RowTermOp>(op)) {
      if (term)
        return report(next, term);
      term = next;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Keys after the query
//===----------------------------------------------------------------------===//

static bool isIndexOf(Value value, pos::Side side) {
  auto index = value.getDefiningOp<pos::IndexOp>();
  return index && index.getSide() == side;
}

/// Whether a condition is false for every key after the query.
static bool hidesLaterKeys(Value condition) {
  Operation *op = condition.getDefiningOp();
  if (isa_and_present<arith::AndIOp>(op))
    return hidesLaterKeys(op->getOperand(0)) ||
           hidesLaterKeys(op->getOperand(1));
  auto compare = dyn_cast_if_present<arith::CmpIOp>(op);
  if (!compare)
    return false;
  // As least <= most.
  Value least = compare.getLhs(), most = compare.getRhs();
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  if (predicate == Predicate::sge || predicate == Predicate::sgt)
    std::swap(least, most);
  else if (predicate != Predicate::sle && predicate != Predicate::slt &&
           predicate != Predicate::eq)
    return false;
  if (isIndexOf(least, pos::Side::key) && isIndexOf(most, pos::Side::query))
    return true;
  auto distance = most.getDefiningOp<arith::SubIOp>();
  return matchPattern(least, m_Zero()) && distance &&
         isIndexOf(distance.getLhs(), pos::Side::query) &&
         isIndexOf(distance.getRhs(), pos::Side::key);
}

static LogicalResult verifyPast(pos::SitesOwnerInterface owner) {
  Block &sites = owner.getSitesRegion().front();
  auto masks = sites.getOps<pos::MaskOp>();
  for (auto require : sites.getOps<pos::RequirePastOp>()) {
    if (!masks.empty() &&
        hidesLaterKeys(
            (*masks.begin()).getPayload().getTerminator()->getOperand(0)))
      continue;
    InFlightDiagnostic diag = owner->emitOpError()
                              << require.getMessage()
                              << ": some query may see a later key";
    diag.attachNote(require.getLoc()) << "required here";
    return diag;
  }
  return success();
}

LogicalResult passes::verifyFused(ModuleOp module) {
  if (failed(verifyInlined(module)))
    return failure();
  WalkResult result =
      module.walk([](pos::SitesOwnerInterface owner) -> WalkResult {
        Region &region = owner.getSitesRegion();
        if (region.empty())
          return success();
        if (failed(verifySitesFused(region.front())))
          return failure();
        return verifyPast(owner);
      });
  return failure(result.wasInterrupted());
}
