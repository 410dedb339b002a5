//===- PositionBounds.cpp - The range of given positions ------------------===//

#include "codegen/PositionBounds.h"
#include "codegen/ArgumentPoint.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/IR/Matchers.h"
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
                             Index queries, Index keys) {
  if (bound == Bound::greatest)
    return kernel.sub(keys, 1);
  return side == Side::key ? Index(0) : kernel.sub(keys, queries);
}

static CoordRange findRange(KernelBuilder &k, ArgumentBlock &arguments,
                            const PointLayout &layout, Side side,
                            int64_t axis) {
  Index queries = arguments.getScalar(layout.firstScalar + 3);
  Index keys = arguments.getScalar(layout.firstScalar + 4);
  bool isKey = side == Side::key;
  std::optional<unsigned> tensor =
      isKey ? layout.keyPositions : layout.queryPositions;
  if (!tensor)
    return {getIndexBound(k, Bound::least, side, queries, keys),
            getIndexBound(k, Bound::greatest, side, queries, keys)};
  Value low = k.constantI64(std::numeric_limits<int32_t>::max());
  Value high = k.constantI64(std::numeric_limits<int32_t>::min());
  KernelBuilder::Values both =
      k.loop(0, arguments.getSize(*tensor, 0), 1, {low, high},
             [&](Value batch, ValueRange outer) {
               return k.loop(
                   0, isKey ? keys : queries, 1, outer,
                   [&](Value row, ValueRange now) {
                     Value address =
                         arguments.getAddress(*tensor, {batch, row, axis});
                     Index here = k.fromI32(k.load(k.i32, address));
                     return KernelBuilder::Values{k.value(k.min(now[0], here)),
                                                  k.value(k.max(now[1], here))};
                   });
             });
  return {both[0], both[1]};
}

Value codegen::launchBounds(const Lowering &lowering) {
  int64_t axes = 0;
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  auto ask = [&](int64_t axis) { axes = std::max(axes, axis + 1); };
  owner.getSitesRegion().walk([&](pos::BoundOp op) { ask(op.getAxis()); });
  owner.getSitesRegion().walk(
      [&](pos::RequireSpanOp op) { ask(op.getAxis()); });
  if (axes == 0 || !lowering.plan.hasPositions)
    return {};
  auto type = RankedTensorType::get({4 * axes}, lowering.builder.getI32Type());
  Value buffer = lowering.allocate(type, {});
  LaunchOperands operands;
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  unsigned number = operands.write(buffer);
  auto items = [](KernelBuilder &, ArgumentBlock &) { return Index(1); };
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
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    k.loop(begin, end, 1, [&](Value) { fill(k, arguments); });
  };
  operands.launch(lowering, "bounds", {items, noScratch, run});
  return buffer;
}

void codegen::emitSpanChecks(const Lowering &lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  unsigned lengthDim = operands.values.empty() ? 1 : 2;
  Value bounds;
  auto check = [&](pos::RequireSpanOp op) {
    APInt limit;
    matchPattern(op.getLimit(), m_ConstantInt(&limit));
    Value span;
    if (!lowering.plan.hasPositions) {
      // Indices, aligned at the end.
      span = arith::MaxSIOp::create(builder, loc,
                                    lowering.getDim(operands.query, lengthDim),
                                    lowering.getDim(operands.key, lengthDim));
    } else {
      if (!bounds)
        bounds = launchBounds(lowering);
      auto entry = [&](int64_t number) -> Value {
        return exec::ElementOp::create(builder, loc, builder.getIndexType(),
                                       bounds, 4 * op.getAxis() + number);
      };
      Value least = arith::MinSIOp::create(builder, loc, entry(0), entry(2));
      Value greatest = arith::MaxSIOp::create(builder, loc, entry(1), entry(3));
      Value steps = arith::SubIOp::create(builder, loc, greatest, least);
      span = arith::AddIOp::create(
          builder, loc, steps, arith::ConstantIndexOp::create(builder, loc, 1));
    }
    Value most =
        arith::ConstantIndexOp::create(builder, loc, limit.getSExtValue());
    exec::CheckOp::create(builder, loc, span, exec::Predicate::at_most, most,
                          op.getMessage());
  };
  if (!owner.getSitesRegion().empty())
    for (auto op : owner.getSitesRegion().front().getOps<pos::RequireSpanOp>())
      check(op);
}

Value codegen::loadBound(KernelBuilder &kernel, Value buffer, Bound bound,
                         Side side, int64_t axis) {
  int64_t entry = 4 * axis + (side == Side::key ? 2 : 0) +
                  (bound == Bound::greatest ? 1 : 0);
  return kernel.load(kernel.i32, kernel.advance(buffer, {entry}, kernel.i32));
}
