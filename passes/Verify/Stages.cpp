//===- Stages.cpp - What may exist after each stage -----------------------===//
//
// The promises of each stage are checked over all owners of sites in a module;
// the first that does not hold is an error at its op.
//
//===----------------------------------------------------------------------===//

#include "passes/Verify/Stages.h"
#include "dialects/Pos/IR/Dependence.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Analysis/HoistForm.h"
#include "passes/Analysis/LaterKeys.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Dependence;

static LogicalResult verifySiteResolved(pos::SiteOpInterface site) {
  if (failed(pos::detail::verifyOperandsConstant(site)))
    return failure();
  if (auto rows = dyn_cast<pos::RowsOp>(*site); rows && !rows.getGrouping())
    return rows.emitOpError("has no grouping after inlining (C6)");
  return success();
}

static LogicalResult verifyInlined(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
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

/// Asks `verify` for every op that has sites.
static LogicalResult
forRegions(Operation *root,
           function_ref<LogicalResult(pos::SitesOwnerInterface)> verify) {
  WalkResult result =
      root->walk([&](pos::SitesOwnerInterface owner) -> WalkResult {
        return owner.getSitesRegion().empty() ? success() : verify(owner);
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

static LogicalResult verifyOwnPast(pos::SitesOwnerInterface owner) {
  Block &sites = owner.getSitesRegion().front();
  auto masks = sites.getOps<pos::MaskOp>();
  for (auto require : sites.getOps<pos::RequirePastOp>()) {
    if (!masks.empty() &&
        hidesLaterKeys(
            (*masks.begin()).getPayload().getTerminator()->getOperand(0),
            owner.hasPositions()))
      continue;
    InFlightDiagnostic diag = owner->emitOpError()
                              << require.getMessage()
                              << ": some query may see a later key";
    diag.attachNote(require.getLoc()) << "required here";
    return diag;
  }
  return success();
}

LogicalResult passes::verifyPast(Operation *root) {
  return forRegions(root, verifyOwnPast);
}

//===----------------------------------------------------------------------===//
// Hoists
//===----------------------------------------------------------------------===//

static LogicalResult verifyHoist(pos::HoistOp hoist, bool hasPositions,
                                 Dependence &dependence) {
  pos::AxisSet axes = hoist.getAxisSet();
  if (!isKeptOutsideTiles(axes))
    return hoist.emitOpError("has axes that no kernel keeps outside its tiles");
  if (auto vector = dyn_cast<RankedTensorType>(hoist.getType())) {
    if (axes != pos::AxisSet(pos::Axis::offset) || !vector.hasStaticShape())
      return hoist.emitOpError(
          "of a vector is a table over offsets of a static "
          "extent");
    if (hasPositions)
      return hoist.emitOpError(
          "of a vector has a row per offset, but positions "
          "are given");
  }
  Value yielded = hoist.getBody().front().getTerminator()->getOperand(0);
  if (!axes.contains(dependence.of(yielded)))
    return hoist.emitOpError("varies with more than its axes");
  return success();
}

static LogicalResult verifyPayload(Block &payload, Dependence &dependence) {
  for (Operation &op : payload) {
    if (isa<pos::ReadOp, pos::SumOp, pos::RunningSumOp>(op) &&
        isKeptOutsideTiles(dependence.of(op.getResult(0))))
      return op.emitOpError("is left in a payload, though it needs neither "
                            "score nor row");
    if (auto atHeads = dyn_cast<pos::ForHeadsOp>(op))
      if (failed(verifyPayload(atHeads.getBody().front(), dependence)))
        return failure();
  }
  return success();
}

static LogicalResult verifySitesHoisted(pos::SitesOwnerInterface owner) {
  Dependence dependence(owner);
  for (Operation &op : owner.getSitesRegion().front()) {
    LogicalResult checked = success();
    if (auto hoist = dyn_cast<pos::HoistOp>(op))
      checked = verifyHoist(hoist, owner.hasPositions(), dependence);
    else if (auto site = dyn_cast<pos::SiteOpInterface>(op);
             site && !site.isOutsideTiles())
      checked = verifyPayload(site.getPayload(), dependence);
    if (failed(checked))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static constexpr std::pair<Stage, StringLiteral> makers[] = {
    {Stage::Inlined, "pos-inline-encodings"},
    {Stage::Fused, "pos-fuse-sites"},
    {Stage::Hoisted, "pos-hoist"},
};

static LogicalResult verifyOne(Operation *root, Stage stage) {
  switch (stage) {
  case Stage::Inlined:
    return verifyInlined(root);
  case Stage::Fused:
    return forRegions(root, [](pos::SitesOwnerInterface owner) {
      return verifySitesFused(owner.getSitesRegion().front());
    });
  case Stage::Hoisted:
    return forRegions(root, verifySitesHoisted);
  }
  llvm_unreachable("unknown stage");
}

LogicalResult passes::verifyStage(Operation *root, Stage stage) {
  for (auto [one, maker] : makers)
    if (one <= stage && failed(verifyOne(root, one)))
      return failure();
  return success();
}

LogicalResult passes::requireStage(Operation *root, Stage stage,
                                   StringRef pass) {
  for (auto [one, maker] : makers) {
    if (one > stage)
      break;
    ScopedDiagnosticHandler handler(
        root->getContext(), [&, maker = maker](Diagnostic &diagnostic) {
          diagnostic.attachNote() << pass << " comes after " << maker;
          return failure(); // others print it
        });
    if (failed(verifyOne(root, one)))
      return failure();
  }
  return success();
}
