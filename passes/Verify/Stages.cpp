//===- Stages.cpp - What may exist after each stage -----------------------===//

#include "passes/Verify/Stages.h"
#include "dialects/Pos/IR/Pos.h"

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

LogicalResult passes::verifyFused(ModuleOp module) {
  if (failed(verifyInlined(module)))
    return failure();
  WalkResult result =
      module.walk([](pos::SitesOwnerInterface owner) -> WalkResult {
        Region &region = owner.getSitesRegion();
        return region.empty() ? success() : verifySitesFused(region.front());
      });
  return failure(result.wasInterrupted());
}
