//===- HoistVectors.cpp - Moves vectors of the offset out of scores -------===//
//
// The pass works backwards from what a score of all heads yields, like
// `pos-hoist`: a vector that is needed in place and varies with the offset at
// most is hoisted if it takes a contraction or a function to compute; otherwise
// its operands are needed in place. A vector of table entries, one per head,
// stays: hoisting it would only copy a table.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "passes/Encoding/Slices.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_HOISTVECTORS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;
using pos::Dependence;

static bool isHoistable(Value value, Dependence &dependence) {
  Operation *op = value.getDefiningOp();
  auto vector = dyn_cast<RankedTensorType>(value.getType());
  return op && vector && vector.getElementType().isF32() &&
         !isa<pos::HoistOp>(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
         AxisSet(Axis::offset).contains(dependence.of(value));
}

static bool isWorthHoisting(Value value, Block &payload) {
  return llvm::any_of(getSlice(value, payload, {}), [](Operation *op) {
    bool isVector = isa<RankedTensorType>(op->getResult(0).getType());
    return isa<pos::ContractOp>(op) ||
           (isVector && isa<math::MathDialect>(op->getDialect()));
  });
}

/// Creates the hoist of a vector of the payload, before the site.
static pos::HoistOp createHoist(Value root, pos::ScoreOp site) {
  OpBuilder builder(site);
  Attribute offset = pos::AxisAttr::get(builder.getContext(), Axis::offset);
  auto hoist = pos::HoistOp::create(builder, root.getLoc(), root.getType(),
                                    builder.getArrayAttr(offset));
  builder.createBlock(&hoist.getBody());
  IRMapping mapping;
  cloneSlice(builder, getSlice(root, site.getPayload(), {}),
             cast<pos::SiteOpInterface>(*site), mapping);
  pos::YieldOp::create(builder, root.getLoc(), mapping.lookup(root));
  return hoist;
}

static unsigned hoistFrom(pos::ScoreOp site, Dependence &dependence) {
  Block &payload = site.getPayload();
  PayloadRoots roots = findRoots(payload, [&](Value value) {
    return isHoistable(value, dependence) && isWorthHoisting(value, payload);
  });
  for (Value root : roots.values)
    roots.replace(root, createHoist(root, site).getResult(), payload);
  eraseDead(payload);
  return roots.values.size();
}

namespace {
/// Hoists out of each score of all heads.
struct HoistVectors : passes::impl::HoistVectorsBase<HoistVectors> {
  using HoistVectorsBase::HoistVectorsBase;

  void runOnOperation() override {
    if (failed(requireStage(getOperation(), Stage::Fused, getArgument())))
      return signalPassFailure();
    SmallVector<pos::ScoreOp> scores;
    getOperation()->walk([&](pos::ScoreOp score) {
      Type type = score.getPayload().getArgument(0).getType();
      if (isa<RankedTensorType>(type) &&
          isa<pos::SitesOwnerInterface>(score->getParentOp()))
        scores.push_back(score);
    });
    for (pos::ScoreOp score : scores) {
      auto owner = cast<pos::SitesOwnerInterface>(score->getParentOp());
      if (owner.hasPositions()) {
        remark::missed(
            owner.getLoc(),
            remark::RemarkOpts::name("not hoisted").category(getArgument()))
            << remark::reason("{0}", "positions are given: offsets have gaps");
        continue;
      }
      Dependence dependence(owner);
      unsigned count = hoistFrom(score, dependence);
      numVectors += count;
      remark::passed(
          owner.getLoc(),
          remark::RemarkOpts::name("hoisted").category(getArgument()))
          << remark::metric("Vectors", count);
    }
  }
};
} // namespace
