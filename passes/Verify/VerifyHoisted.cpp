//===- VerifyHoisted.cpp - Checks that hoists are what they say -----------===//

#include "dialects/Pos/IR/Pos.h"
#include "passes/Analysis/Dependence.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYHOISTED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

static LogicalResult verifyHoist(pos::HoistOp hoist, Dependence &dependence) {
  pos::AxisSet axes = getAxes(hoist);
  if (!isKeptOutsideTiles(axes))
    return hoist.emitOpError("has axes that no kernel keeps outside its tiles");
  if (auto vector = dyn_cast<RankedTensorType>(hoist.getType());
      vector &&
      (axes != pos::AxisSet(pos::Axis::offset) || !vector.hasStaticShape()))
    return hoist.emitOpError("of a vector is a table over offsets of a static "
                             "extent");
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

namespace {
struct VerifyHoisted : passes::impl::VerifyHoistedBase<VerifyHoisted> {
  using VerifyHoistedBase::VerifyHoistedBase;

  void runOnOperation() override {
    if (failed(verifyFused(getOperation())))
      return signalPassFailure();
    WalkResult result =
        getOperation().walk([&](pos::SitesOwnerInterface owner) -> WalkResult {
          if (owner.getSitesRegion().empty())
            return success();
          Dependence dependence(owner);
          for (Operation &op : owner.getSitesRegion().front()) {
            LogicalResult checked = success();
            if (auto hoist = dyn_cast<pos::HoistOp>(op))
              checked = verifyHoist(hoist, dependence);
            else if (auto site = dyn_cast<pos::SiteOpInterface>(op);
                     site && !site.isOutsideTiles())
              checked = verifyPayload(site.getPayload(), dependence);
            if (failed(checked))
              return failure();
          }
          return success();
        });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
