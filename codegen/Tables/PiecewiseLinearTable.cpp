//===- PiecewiseLinearTable.cpp - Tables of piecewise-linear functions ----===//

#include "codegen/Tables/PiecewiseLinearTable.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tables/PiecewiseLinearUnits.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

PiecewiseLinearLayout::PiecewiseLinearLayout(pos::HingesOp op, int64_t lanes)
    : units(op.getNumUnits()) {
  int64_t padded = llvm::alignTo(units, lanes);
  int64_t segments = llvm::alignTo(units + 1, lanes);
  knots = 0;
  jumps = padded;
  slopes = 2 * padded;
  intercepts = slopes + segments;
  size = intercepts + segments;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static llvm::SmallSetVector<unsigned, 4> getParams(pos::HingesOp op) {
  llvm::SmallSetVector<unsigned, 4> params;
  op.walk([&](pos::ReadOp read) {
    if (auto param = dyn_cast<BlockArgument>(read.getTensor()))
      params.insert(param.getArgNumber());
  });
  return params;
}

static PointLayout addReads(const Lowering &lowering, pos::HingesOp op,
                            LaunchOperands &operands, Value bounds) {
  auto params = getParams(op);
  PointLayout layout =
      addPointOperands(lowering, operands, [&](unsigned number) {
        return params.contains(number);
      });
  if (bounds)
    layout.bounds = operands.read(bounds);
  return layout;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Fills the row of a table at `to`.
static void emitRow(PiecewiseLinearUnits &units,
                    const PiecewiseLinearLayout &layout, ValueRange sums,
                    Value to) {
  KernelBuilder &k = units.k;
  auto store = [&](Value value, Index place) {
    k.store(k.narrow(value), k.advance(to, {place}));
  };
  // Knots past the last are at infinity.
  k.loop(0, layout.jumps, 1, [&](Value place) {
    k.store(k.constantF32(std::numeric_limits<double>::infinity()),
            k.advance(to, {place}));
    k.store(k.constantF32(0.0), k.advance(to, {place, layout.jumps}));
  });
  auto getSlope = [&](Value unit) {
    return units.mul(units.get(PiecewiseLinearUnits::weight, unit),
                     units.get(PiecewiseLinearUnits::slope, unit));
  };
  k.loop(0, layout.units, 1, [&](Value unit) {
    Index rank = units.getRank(unit);
    store(units.get(PiecewiseLinearUnits::knot, unit), rank);
    Value difference = units.sub(units.get(PiecewiseLinearUnits::above, unit),
                                 units.get(PiecewiseLinearUnits::below, unit));
    store(units.mul(getSlope(unit), difference), k.add(rank, layout.jumps));
  });
  // A lane has a segment; those behind the last are padding.
  auto emitSegments = [&](Value first) {
    Value segments = k.lanes(first);
    Values lines;
    for (Value sum : sums)
      lines.push_back(k.broadcast(sum));
    auto addUnit = [&](Value unit, ValueRange carried) -> Values {
      auto get = [&](PiecewiseLinearUnits::Column column) {
        return k.broadcast(units.get(column, unit));
      };
      Value isAbove = arith::CmpIOp::create(
          k.builder, k.loc, arith::CmpIPredicate::slt,
          k.broadcast(k.toI32(units.getRank(unit))), segments);
      Value factor = k.selectF(isAbove, get(PiecewiseLinearUnits::above),
                               get(PiecewiseLinearUnits::below));
      Value intercept =
          units.mul(units.get(PiecewiseLinearUnits::weight, unit),
                    units.get(PiecewiseLinearUnits::offset, unit));
      return {
          units.add(carried[0], units.mul(k.broadcast(getSlope(unit)), factor)),
          units.add(carried[1], units.mul(k.broadcast(intercept), factor))};
    };
    lines = k.loop(0, layout.units, 1, lines, addUnit);
    k.storeVector(k.narrow(lines[0]), to, {first, layout.slopes});
    k.storeVector(k.narrow(lines[1]), to, {first, layout.intercepts});
  };
  k.loop(0, layout.units + 1, k.width(), emitSegments);
}

static void launchTable(const Lowering &lowering, pos::HingesOp op,
                        StringRef suffix, Value bounds, Value table) {
  LaunchOperands operands;
  PointLayout pointLayout = addReads(lowering, op, operands, bounds);
  unsigned target = operands.write(table);
  PiecewiseLinearLayout layout(op, lowering.target.width);
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(
        k, {arguments.getSize(target, 0), arguments.getSize(target, 1)});
  };
  auto scratch = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(8 * PiecewiseLinearUnits::numColumns * layout.units);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    HeadPoint point(k, arguments, pointLayout, lowering.plan);
    items.forEach([&](const Item &item) {
      point.moveTo(item[0], item[1]);
      PiecewiseLinearUnits units(k, op, memory);
      Values sums = units.emit(point);
      emitRow(units, layout, sums,
              arguments.getAddress(target, {item[0], item[1]}));
    });
  };
  operands.launch(lowering, suffix, {items, scratch, run});
}

SmallVector<Value>
codegen::launchPiecewiseLinearTables(const Lowering &lowering, Value bounds) {
  SmallVector<Value> tables;
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  for (auto [number, function] : llvm::enumerate(lowering.plan.hinges)) {
    int64_t size =
        PiecewiseLinearLayout(function.op, lowering.target.width).size;
    constexpr int64_t dynamic = ShapedType::kDynamic;
    tables.push_back(
        lowering.allocate(RankedTensorType::get({dynamic, dynamic, size},
                                                lowering.builder.getF32Type()),
                          {lowering.getDim(owner.query, 0),
                           lowering.getDim(owner.query, 1), Value()}));
    launchTable(lowering, function.op, ("hinges" + Twine(number)).str(), bounds,
                tables.back());
  }
  return tables;
}

//===----------------------------------------------------------------------===//
// Pullback
//===----------------------------------------------------------------------===//

/// Adds the gradients of the units at one head to those of parameters. `passed`
/// has room for what passes each knot, two numbers each.
static void pullUnits(PiecewiseLinearUnits &units,
                      const PiecewiseLinearLayout &layout, Value moments,
                      Value passed, HeadPoint &point) {
  KernelBuilder &k = units.k;
  Type f64 = units.f64;
  auto getMoment = [&](PiecewiseLinearLayout::Moment moment, Index place) {
    return k.load(f64,
                  k.advance(moments, {place, layout.getMoment(moment)}, f64));
  };
  // Downwards, so that the sums are of what lies above.
  Values totals = k.loop(
      0, layout.units, 1, {units.constant(0.0), units.constant(0.0)},
      [&](Value step, ValueRange carried) -> Values {
        Index knot = k.sub(layout.units - 1, step);
        Index segment = k.add(knot, 1);
        Value sum = units.add(
            carried[0], getMoment(PiecewiseLinearLayout::segmentSum, segment));
        Value product = units.add(
            carried[1],
            getMoment(PiecewiseLinearLayout::segmentProduct, segment));
        k.store(units.add(sum, getMoment(PiecewiseLinearLayout::knotSum, knot)),
                k.advance(passed, {knot}, f64));
        k.store(units.add(product,
                          getMoment(PiecewiseLinearLayout::knotProduct, knot)),
                k.advance(passed, {knot, layout.units}, f64));
        return {sum, product};
      });
  totals = {
      units.add(totals[0], getMoment(PiecewiseLinearLayout::segmentSum, 0)),
      units.add(totals[1],
                getMoment(PiecewiseLinearLayout::segmentProduct, 0))};

  k.loop(0, layout.units, 1, [&](Value unit) {
    Index rank = units.getRank(unit);
    Value above = units.get(PiecewiseLinearUnits::above, unit);
    Value below = units.get(PiecewiseLinearUnits::below, unit);
    auto getActive = [&](Value total, int64_t column) {
      Value past =
          k.load(f64, k.advance(passed, {rank, column * layout.units}, f64));
      return units.add(units.mul(above, past),
                       units.mul(below, units.sub(total, past)));
    };
    Value sum = getActive(totals[0], 0), product = getActive(totals[1], 1);
    Value w = units.get(PiecewiseLinearUnits::weight, unit);
    Value atWeight = units.add(
        units.mul(units.get(PiecewiseLinearUnits::slope, unit), product),
        units.mul(units.get(PiecewiseLinearUnits::offset, unit), sum));
    Values cotangents{totals[1], totals[0], atWeight, units.mul(w, product),
                      units.mul(w, sum)};
    callPullback(k, units.op.getBody().front(), k.toI32(unit), cotangents,
                 point);
  });
}

static void launchPullback(const Lowering &lowering, pos::HingesOp op,
                           StringRef suffix, Value bounds, Value moments,
                           ParamSums &params) {
  LaunchOperands operands;
  PointLayout pointLayout = addReads(lowering, op, operands, bounds);
  unsigned source = operands.read(moments);
  SmallVector<unsigned> read;
  llvm::copy_if(getParams(op), std::back_inserter(read),
                [&](unsigned param) { return params.isWanted(param); });
  Value heads = arith::MulIOp::create(lowering.builder, lowering.getLoc(),
                                      lowering.getDim(moments, 0),
                                      lowering.getDim(moments, 1));
  Value ranges = params.countRanges(heads, /*leastPerRange=*/1, read);
  unsigned rangeCount = operands.scalar(ranges);
  for (unsigned param : read) {
    pointLayout.ofRanges.insert(param);
    pointLayout.paramGradients[param] =
        operands.write(params.addRanges(param, ranges));
  }
  PiecewiseLinearLayout layout(op, lowering.target.width);
  auto scratch = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(8 * (PiecewiseLinearUnits::numColumns + 2) * layout.units);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    HeadPoint point(k, arguments, pointLayout, lowering.plan);
    auto pullHead = [&](Index batch, Index head) {
      point.moveTo(batch, head);
      PiecewiseLinearUnits units(k, op, memory);
      Value passed = k.advance(
          memory, {PiecewiseLinearUnits::numColumns * layout.units}, units.f64);
      units.emit(point);
      pullUnits(units, layout, arguments.getAddress(source, {batch, head}),
                passed, point);
    };
    Index heads = arguments.getSize(source, 1);
    Index all = k.mul(arguments.getSize(source, 0), heads);
    auto begin = [&](Index number) {
      return getRangeBegin(k, number, arguments.getScalar(rangeCount), all, 1);
    };
    items.forEach([&](const Item &item) {
      point.setRange(item[0]);
      k.loop(begin(item[0]), begin(k.add(item[0], 1)), 1, [&](Value place) {
        pullHead(k.div(place, heads), k.rem(place, heads));
      });
    });
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {arguments.getScalar(rangeCount)});
  };
  operands.launch(lowering, suffix, {items, scratch, run});
}

void codegen::launchPiecewiseLinearPullbacks(const Lowering &lowering,
                                             Value bounds,
                                             ArrayRef<Value> moments,
                                             ParamSums &params) {
  for (auto [number, function] : llvm::enumerate(lowering.plan.hinges))
    if (moments[number])
      launchPullback(lowering, function.op,
                     ("hinges" + Twine(number) + "_pullback").str(), bounds,
                     moments[number], params);
}
