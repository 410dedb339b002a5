//===- PositionBounds.cpp - The range of given positions ------------------===//

#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Bound;
using pos::Side;

namespace {
/// Least and greatest coordinate.
struct CoordRange {
  Index least, greatest;
};
} // namespace

Index codegen::getIndexBound(KernelBuilder &kernel, Bound bound, Side side,
                             Index shift, Index queries, Index keys) {
  bool isKey = side == Side::key;
  if (bound == Bound::least)
    return isKey ? Index(0) : shift;
  return kernel.sub(isKey ? keys : kernel.add(shift, queries), 1);
}

static CoordRange findRange(KernelBuilder &k, ArgumentBlock &arguments,
                            const PointLayout &layout, Side side,
                            int64_t axis) {
  Index queries = arguments.getScalar(layout.firstScalar + 3);
  Index keys = arguments.getScalar(layout.firstScalar + 4);
  bool isKey = side == Side::key;
  std::optional<unsigned> tensor =
      isKey ? layout.keyPositions : layout.queryPositions;
  if (!tensor) {
    Index shift = k.sub(keys, queries);
    if (layout.queryTail)
      shift = k.sub(shift, arguments.getSize(*layout.queryTail, 0));
    return {getIndexBound(k, Bound::least, side, shift, queries, keys),
            getIndexBound(k, Bound::greatest, side, shift, queries, keys)};
  }
  Value low = k.constantI64(std::numeric_limits<int32_t>::max());
  Value high = k.constantI64(std::numeric_limits<int32_t>::min());
  KernelBuilder::Values both = k.nest(
      {{0, arguments.getSize(*tensor, 0)}, {0, isKey ? keys : queries}},
      {low, high}, [&](ValueRange at, ValueRange now) -> KernelBuilder::Values {
        Value address = arguments.getAddress(*tensor, {at[0], at[1], axis});
        Index here = k.fromI32(k.load(k.i32, address));
        return {k.value(k.min(now[0], here)), k.value(k.max(now[1], here))};
      });
  return {both[0], both[1]};
}

/// The number of axes whose bounds somebody asks for: a payload, or a check.
static int64_t countAxes(pos::SitesOwnerInterface owner) {
  int64_t axes = 0;
  auto ask = [&](int64_t axis) { axes = std::max(axes, axis + 1); };
  Region &sites = owner.getSitesRegion();
  sites.walk([&](pos::BoundOp op) { ask(op.getAxis()); });
  sites.walk([&](pos::RequireSpanOp op) { ask(op.getAxis()); });
  sites.walk([&](pos::OffsetOp op) { ask(op.getAxis()); });
  return axes;
}

/// Every launch of an op fills the same buffer, so they share a kernel.
static Value fillBounds(const Lowering &lowering) {
  int64_t axes = countAxes(lowering.plan.owner);
  auto type = RankedTensorType::get({4 * axes}, lowering.builder.getI32Type());
  Value buffer = lowering.allocate(type, {});
  LaunchOperands operands;
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  unsigned number = operands.write(buffer);
  auto fill = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    Value base = arguments.getPointer(number);
    for (int64_t axis = 0; axis < axes; ++axis)
      for (Side side : {Side::query, Side::key}) {
        CoordRange range = findRange(k, arguments, layout, side, axis);
        int64_t entry = 4 * axis + (side == Side::key ? 2 : 0);
        k.store(k.toI32(range.least), k.advance(base, {entry}, k.i32));
        k.store(k.toI32(range.greatest), k.advance(base, {entry + 1}, k.i32));
      }
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    items.forEach([&](const Item &) { fill(k, arguments); });
  };
  operands.launch(lowering, "bounds", {oneItem, noScratch, run});
  return buffer;
}

Value codegen::launchBounds(const Lowering &lowering) {
  bool asked = false;
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  owner.getSitesRegion().walk([&](pos::BoundOp) { asked = true; });
  return asked && lowering.plan.hasPositions ? fillBounds(lowering) : Value();
}

namespace {

/// Checks of the coordinates in use, as integers of the program.
class SpanChecker {
public:
  explicit SpanChecker(const Lowering &lowering)
      : lowering(lowering), builder(lowering.builder), loc(lowering.getLoc()) {}

  void require(pos::RequireSpanOp op);
  /// An offset is computed with 32 bits, on every target.
  void offsets(int64_t axis);

private:
  Value get(Bound bound, Side side, int64_t axis) {
    if (!bounds)
      bounds = fillBounds(lowering);
    int64_t entry = 4 * axis + (side == Side::key ? 2 : 0) +
                    (bound == Bound::greatest ? 1 : 0);
    return exec::ElementOp::create(builder, loc, builder.getIndexType(), bounds,
                                   entry);
  }
  Value constant(int64_t number) {
    return arith::ConstantIndexOp::create(builder, loc, number);
  }
  void atMost(Value span, int64_t most, const Twine &message) {
    exec::CheckOp::create(builder, loc, span, exec::Predicate::at_most,
                          constant(most), message.str());
  }

  const Lowering &lowering;
  OpBuilder &builder;
  Location loc;
  Value bounds;
};
} // namespace

void SpanChecker::require(pos::RequireSpanOp op) {
  APInt limit;
  matchPattern(op.getLimit(), m_ConstantInt(&limit));
  Value span;
  if (!lowering.plan.hasPositions) {
    // Indices, aligned at the end.
    OwnerOperands operands = getOwnerOperands(lowering.plan.owner);
    unsigned lengthDim = operands.values.empty() ? 1 : 2;
    Value queries = lowering.getDim(operands.query, lengthDim);
    if (operands.queryTail)
      queries = arith::AddIOp::create(builder, loc, queries,
                                      lowering.getDim(operands.queryTail, 0));
    span = arith::MaxSIOp::create(builder, loc, queries,
                                  lowering.getDim(operands.key, lengthDim));
  } else {
    auto both = [&](Bound bound) {
      Value query = get(bound, Side::query, op.getAxis());
      return std::pair(query, get(bound, Side::key, op.getAxis()));
    };
    auto [queryLeast, keyLeast] = both(Bound::least);
    auto [queryGreatest, keyGreatest] = both(Bound::greatest);
    Value least = arith::MinSIOp::create(builder, loc, queryLeast, keyLeast);
    Value greatest =
        arith::MaxSIOp::create(builder, loc, queryGreatest, keyGreatest);
    Value steps = arith::SubIOp::create(builder, loc, greatest, least);
    span = arith::AddIOp::create(builder, loc, steps, constant(1));
  }
  atMost(span, limit.getSExtValue(), op.getMessage());
}

void SpanChecker::offsets(int64_t axis) {
  auto check = [&](Side from, Side to, const Twine &which) {
    Value greatest = get(Bound::greatest, to, axis);
    Value least = get(Bound::least, from, axis);
    Value span = arith::SubIOp::create(builder, loc, greatest, least);
    atMost(span, std::numeric_limits<int32_t>::max(),
           which + " positions do not fit 32 bits as a difference (axis " +
               Twine(axis) + ")");
  };
  check(Side::query, Side::key, "key minus query");
  check(Side::key, Side::query, "query minus key");
}

void codegen::emitSpanChecks(const Lowering &lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  Region &sites = owner.getSitesRegion();
  if (sites.empty())
    return;
  SpanChecker checker(lowering);
  for (auto op : sites.front().getOps<pos::RequireSpanOp>())
    checker.require(op);
  if (!lowering.plan.hasPositions)
    return;
  llvm::SmallSetVector<int64_t, 2> axes;
  sites.walk([&](pos::OffsetOp op) { axes.insert(op.getAxis()); });
  for (int64_t axis : axes)
    checker.offsets(axis);
}

Value codegen::loadBound(KernelBuilder &kernel, Value buffer, Bound bound,
                         Side side, int64_t axis) {
  int64_t entry = 4 * axis + (side == Side::key ? 2 : 0) +
                  (bound == Bound::greatest ? 1 : 0);
  return kernel.load(kernel.i32, kernel.advance(buffer, {entry}, kernel.i32));
}
