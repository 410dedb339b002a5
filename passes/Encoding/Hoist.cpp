//===- Hoist.cpp - Moves what needs no score and no row out of payloads ---===//
//
// The pass works backwards from what a payload yields. A value that is needed
// in place is hoisted if a kernel can keep it outside its tiles and if
// computing it costs more than loading it; otherwise its operands are needed in
// place. So every hoist is maximal. What `pos.columns` yields is hoisted
// whatever it is: it is never computed in a tile. Each `pos.for_heads` of a
// score of all heads is worked on like a payload of one head. Masks keep their
// arithmetic on indices: the classes of tiles are found by evaluating it over
// intervals.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/HoistForm.h"
#include "passes/Analysis/ScoreTerms.h"
#include "passes/Encoding/Slices.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"
#include "llvm/ADT/SetVector.h"

namespace sextant::passes {
#define GEN_PASS_DEF_HOIST
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;
using pos::Dependence;

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

/// Costs in simple vector instructions, roughly.
static constexpr unsigned kLoadCost = 4;
static constexpr unsigned kCallCost = 10;

static unsigned getCost(Operation *op) {
  if (isa<pos::ContextOpInterface, pos::HoistOp>(op) ||
      op->hasTrait<OpTrait::ConstantLike>())
    return 0;
  if (isa<pos::ReadOp>(op))
    return kLoadCost;
  if (op->getNumRegions() != 0)
    return 10 * kCallCost;
  if (isa<arith::DivFOp, arith::RemFOp>(op))
    return kLoadCost;
  bool isFunction =
      isa<math::MathDialect>(op->getDialect()) &&
      !isa<math::AbsFOp, math::AbsIOp, math::FmaOp, math::CopySignOp>(op);
  return isFunction ? kCallCost : 1;
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Whether a gradient can flow through the value to a parameter.
static bool carriesGradient(Value root, Block &payload) {
  if (!isa<FloatType>(root.getType()))
    return false;
  for (Operation *op : getSlice(root, payload, {})) {
    WalkResult reads = op->walk([&](pos::ReadOp read) {
      return isa<FloatType>(read.getType()) ? WalkResult::interrupt()
                                            : WalkResult::advance();
    });
    if (reads.wasInterrupted())
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

/// Sums the terms of a score that a kernel keeps in the same form, so that the
/// score takes one of each form. Gives the number of terms that were joined.
static unsigned joinTerms(Block &payload, Dependence &dependence) {
  FailureOr<ScoreTerms> found = getScoreTerms(payload, dependence);
  if (failed(found))
    return 0;
  auto formOf = [&](const ScoreTerm &term) {
    return dependence.of(term.value) - AxisSet{Axis::batch, Axis::head};
  };
  // Sums by form, in the order of their first terms.
  SmallVector<std::pair<AxisSet, ScoreTerm>> sums;
  Operation *yield = payload.getTerminator();
  OpBuilder builder(yield);
  unsigned joined = 0;
  for (ScoreTerm &term : found->terms) {
    AxisSet form = formOf(term);
    auto *same = llvm::find_if(
        sums, [&](const auto &entry) { return entry.first == form; });
    if (same == sums.end() || !isKeptOutsideTiles(form)) {
      sums.emplace_back(form, term);
      continue;
    }
    ScoreTerm &sum = same->second;
    sum.value = combine(builder, sum.value,
                        {term.value, term.isNegated != sum.isNegated});
    ++joined;
  }
  if (joined == 0)
    return 0;
  Value score = found->core;
  for (auto &entry : sums)
    score = combine(builder, score, entry.second);
  yield->setOperand(0, score);
  return joined;
}

//===----------------------------------------------------------------------===//
// Hoisting
//===----------------------------------------------------------------------===//

namespace {
/// What was done in one attention.
struct Counts {
  unsigned hoists = 0, parts = 0, invariants = 0, joined = 0;
};

/// Hoists out of the payloads of one owner of sites after the other.
struct Hoist : passes::impl::HoistBase<Hoist> {
  using HoistBase::HoistBase;

  void runOnOperation() override {
    if (failed(requireStage(getOperation(), Stage::Fused, getArgument())))
      return signalPassFailure();
    SmallVector<pos::SitesOwnerInterface> owners;
    getOperation()->walk([&](pos::SitesOwnerInterface owner) {
      if (!owner.getSitesRegion().empty())
        owners.push_back(owner);
    });
    for (pos::SitesOwnerInterface owner : owners) {
      Counts counts;
      for (Operation &op :
           llvm::make_early_inc_range(owner.getSitesRegion().front()))
        if (auto site = dyn_cast<pos::SiteOpInterface>(op);
            site && !site.isOutsideTiles())
          hoistFrom(site, owner, counts);
      numHoists += counts.hoists;
      numParts += counts.parts;
      numInvariants += counts.invariants;
      numJoined += counts.joined;
      remark::passed(
          owner.getLoc(),
          remark::RemarkOpts::name("hoisted").category(getArgument()))
          << remark::metric("Hoists", counts.hoists)
          << remark::metric("Parts", counts.parts)
          << remark::metric("Invariants", counts.invariants)
          << remark::metric("Joined", counts.joined);
    }
  }

private:
  void hoistFrom(pos::SiteOpInterface site, pos::SitesOwnerInterface owner,
                 Counts &counts);
  void hoistFrom(Block &payload, pos::SiteOpInterface site,
                 Dependence &dependence, Counts &counts);

  /// Hoists both values of appended columns.
  void hoistColumns(pos::ColumnsOp columns, Dependence &dependence,
                    Counts &counts);

  /// Creates the hoist of a value of the payload over `axes`, before the site.
  pos::HoistOp createHoist(Value root, AxisSet axes, Block &payload,
                           pos::SiteOpInterface site, Dependence &dependence,
                           DenseMap<Value, Value> &nested, Counts &counts);
};
} // namespace

static bool isHoistable(Value value, Dependence &dependence) {
  return value.getDefiningOp() && !isa<pos::HoistOp>(value.getDefiningOp()) &&
         (value.getType().isF32() || value.getType().isInteger(32)) &&
         isKeptOutsideTiles(dependence.of(value));
}

/// Whether keeping the value costs less than computing it in place. A mask
/// keeps cheap arithmetic, however much of it there is.
static bool isWorthHoisting(Value value, Block &payload) {
  bool isMask = isa<pos::MaskOp>(payload.getParentOp());
  unsigned total = 0;
  for (Operation *op : getSlice(value, payload, {})) {
    unsigned cost = getCost(op);
    total += isMask && cost < kLoadCost ? 0 : cost;
  }
  return total >= kLoadCost;
}

static ArrayAttr getAxesAttr(AxisSet set, MLIRContext *context) {
  SmallVector<Attribute> axes;
  for (unsigned i = 0; i <= pos::getMaxEnumValForAxis(); ++i)
    if (auto axis = pos::symbolizeAxis(i); axis && set.contains(*axis))
      axes.push_back(pos::AxisAttr::get(context, *axis));
  return ArrayAttr::get(context, axes);
}

/// Parts of a hoisted value that are worth a hoist of their own: expensive,
/// the same for many points of the whole, and without gradient.
static llvm::SetVector<Value>
findParts(Value root, AxisSet whole, Block &payload, Dependence &dependence) {
  llvm::SetVector<Value> parts;
  if (whole.intersects({Axis::self, Axis::lane}))
    return parts;
  // From the root downwards, so that a part of a part is left inside it.
  llvm::SmallPtrSet<Operation *, 16> inside{root.getDefiningOp()};
  for (Operation &op : llvm::reverse(payload)) {
    if (!inside.contains(&op))
      continue;
    Value value = op.getResult(0);
    bool isPart = value != root && isHoistable(value, dependence) &&
                  dependence.of(value) != whole &&
                  !carriesGradient(value, payload);
    // A kernel runs along the keys for a running sum and nothing beside it.
    if (value != root && isa<pos::RunningSumOp>(op)) {
      parts.insert(value);
      continue;
    }
    unsigned cost = 0;
    if (isPart)
      for (Operation *needed : getSlice(value, payload, {}))
        cost += getCost(needed);
    if (isPart && cost >= kCallCost) {
      parts.insert(value);
      continue;
    }
    for (Value operand : getPayloadOperands(&op, payload))
      inside.insert(operand.getDefiningOp());
  }
  return parts;
}

pos::HoistOp Hoist::createHoist(Value root, AxisSet axes, Block &payload,
                                pos::SiteOpInterface site,
                                Dependence &dependence,
                                DenseMap<Value, Value> &nested,
                                Counts &counts) {
  llvm::SetVector<Value> parts = findParts(root, axes, payload, dependence);
  IRMapping mapping;
  for (Value part : parts) {
    if (!nested.contains(part)) {
      Value hoisted = createHoist(part, dependence.of(part), payload, site,
                                  dependence, nested, counts)
                          .getResult();
      nested[part] = hoisted;
      ++counts.parts;
    }
    mapping.map(part, nested[part]);
  }
  OpBuilder builder(site);
  auto hoist = pos::HoistOp::create(builder, root.getLoc(), root.getType(),
                                    getAxesAttr(axes, &getContext()));
  builder.createBlock(&hoist.getBody());
  cloneSlice(builder, getSlice(root, payload, parts.getArrayRef()), site,
             mapping);
  pos::YieldOp::create(builder, root.getLoc(), mapping.lookup(root));
  return hoist;
}

void Hoist::hoistFrom(pos::SiteOpInterface site, pos::SitesOwnerInterface owner,
                      Counts &counts) {
  Block &payload = site.getPayload();
  for (auto atHeads : payload.getOps<pos::ForHeadsOp>())
    moveScalarsIn(atHeads, payload);
  SmallVector<pos::SumOp> sums;
  site->walk([&](pos::SumOp sum) { sums.push_back(sum); });
  for (pos::SumOp sum : sums)
    counts.invariants += moveInvariantsOut(sum);

  if (auto columns = dyn_cast<pos::ColumnsOp>(*site)) {
    Dependence dependence(owner);
    return hoistColumns(columns, dependence, counts);
  }
  SmallVector<Block *> blocks;
  for (auto atHeads : payload.getOps<pos::ForHeadsOp>())
    blocks.push_back(&atHeads.getBody().front());
  blocks.push_back(&payload);
  for (Block *block : blocks) {
    // Of each block anew: a value may have the address of one that was erased.
    Dependence dependence(owner);
    hoistFrom(*block, site, dependence, counts);
  }
}

void Hoist::hoistColumns(pos::ColumnsOp columns, Dependence &dependence,
                         Counts &counts) {
  auto site = cast<pos::SiteOpInterface>(*columns);
  Block &payload = site.getPayload();
  Operation *yield = payload.getTerminator();
  for (unsigned number : {0, 1}) {
    Axis side = number == 0 ? Axis::query : Axis::key;
    Value root = yield->getOperand(number);
    if (isa<pos::HoistOp>(root.getDefiningOp()))
      continue;
    // A constant may stand outside.
    if (root.getParentBlock() != &payload)
      root = OpBuilder(yield).clone(*root.getDefiningOp())->getResult(0);
    DenseMap<Value, Value> nested;
    pos::HoistOp hoist =
        createHoist(root, dependence.of(root) | AxisSet{side, Axis::lane},
                    payload, site, dependence, nested, counts);
    yield->setOperand(number, hoist.getResult());
    ++counts.hoists;
  }
  eraseDead(payload);
}

void Hoist::hoistFrom(Block &payload, pos::SiteOpInterface site,
                      Dependence &dependence, Counts &counts) {
  counts.joined += joinTerms(payload, dependence);
  PayloadRoots roots = findRoots(payload, [&](Value value) {
    return isHoistable(value, dependence) && isWorthHoisting(value, payload);
  });
  SmallVector<Value> ordered(roots.values.begin(), roots.values.end());
  llvm::sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  DenseMap<Value, Value> nested;
  for (Value root : ordered) {
    pos::HoistOp hoist = createHoist(root, dependence.of(root), payload, site,
                                     dependence, nested, counts);
    // What another hoist computes from the value stays inside that hoist.
    roots.replace(root, hoist.getResult(), payload);
    ++counts.hoists;
  }
  eraseDead(payload);
}
