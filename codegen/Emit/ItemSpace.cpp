//===- ItemSpace.cpp - The work items of a kernel as points ---------------===//

#include "codegen/Emit/ItemSpace.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static Index countPlaces(KernelBuilder &kernel, const ItemAxis &axis) {
  return axis.step.is(1) ? axis.extent : kernel.ceilDiv(axis.extent, axis.step);
}

Item::Item(KernelBuilder &kernel, ArrayRef<ItemAxis> axes, Index number)
    : kernel(kernel), axes(axes), first(axes.size(), 0) {
  for (size_t axis = axes.size(); axis-- > 0;) {
    Index place = number;
    if (axis > 0) {
      Index count = countPlaces(kernel, axes[axis]);
      place = kernel.rem(number, count);
      number = kernel.div(number, count);
    }
    first[axis] = kernel.mul(place, axes[axis].step);
  }
}

Index Item::end(unsigned axis) const {
  return kernel.min(kernel.add(first[axis], axes[axis].step),
                    axes[axis].extent);
}

Index ItemSpace::count() const {
  Index count = 1;
  for (const ItemAxis &axis : axes)
    count = kernel.mul(count, countPlaces(kernel, axis));
  return count;
}

void Items::forEach(function_ref<void(const Item &)> body) const {
  ItemSpace space = getSpace();
  space.kernel.loop(begin, end, 1, [&](Value number) {
    body(Item(space.kernel, space.axes, number));
  });
}

void Items::forEachTaken(function_ref<Index()> take,
                         function_ref<void(const Item &)> body) const {
  ItemSpace space = getSpace();
  space.kernel.loop(begin, end, 1, [&](Value) {
    body(Item(space.kernel, space.axes, take()));
  });
}

KernelBuilder::Range codegen::getSummed(KernelBuilder &kernel, Index extent,
                                        Index at, Index all) {
  Value isOne = kernel.equal(extent, 1);
  return {kernel.select(isOne, 0, at),
          kernel.select(isOne, all, kernel.add(at, 1))};
}

Value codegen::loadSum(KernelBuilder &kernel, Value from, Index count,
                       Index step) {
  auto add = [&](Value place, ValueRange sum) -> KernelBuilder::Values {
    return {kernel.addF(sum[0],
                        kernel.loadVector(from, {kernel.mul(place, step)}))};
  };
  return kernel.loop(1, count, 1, kernel.loadVector(from), add)[0];
}

Value codegen::sumOver(KernelBuilder &kernel,
                       ArrayRef<KernelBuilder::Range> ranges, Value initial,
                       function_ref<Value(ValueRange)> addend) {
  auto add = [&](ValueRange point, ValueRange sum) -> KernelBuilder::Values {
    return {kernel.addF64(sum[0], addend(point))};
  };
  return kernel.nest(ranges, initial, add)[0];
}

Value codegen::loadAddend(KernelBuilder &kernel, VectorType type, Value from,
                          Index count) {
  if (kernel.target.loadsAtOnce == 1)
    return kernel.loadPart(type, from, count);
  // Without a branch, for which the loads behind it would wait.
  Value last = kernel.broadcast(kernel.toI32(kernel.sub(count, 1)));
  Value lanes =
      arith::MinSIOp::create(kernel.builder, kernel.loc, kernel.lanes(0), last);
  return kernel.gather(type.getElementType(), from, lanes);
}

/// The point after `point` in nested loops, the last of which runs fastest;
/// after the last point the first.
static KernelBuilder::Values getNextPoint(KernelBuilder &kernel,
                                          ArrayRef<KernelBuilder::Range> ranges,
                                          ValueRange point) {
  KernelBuilder::Values next(point);
  Value moves; // null: always
  for (size_t axis = ranges.size(); axis-- > 0;) {
    const auto &[low, high] = ranges[axis];
    Index further = kernel.add(point[axis], 1);
    Value isEnd = kernel.equal(further, high);
    Index place = kernel.select(isEnd, low, further);
    if (moves)
      place = kernel.select(moves, place, point[axis]);
    next[axis] = kernel.value(place);
    moves = kernel.both(moves, isEnd);
  }
  return next;
}

Value codegen::sumLoaded(KernelBuilder &kernel,
                         ArrayRef<KernelBuilder::Range> ranges, Value initial,
                         function_ref<Value(ValueRange)> load) {
  int64_t atOnce = kernel.target.loadsAtOnce;
  if (atOnce == 1)
    return sumOver(kernel, ranges, initial, load);
  Index count = 1;
  KernelBuilder::Values state;
  for (const auto &[low, high] : ranges) {
    count = kernel.mul(count, kernel.max(kernel.sub(high, low), 0));
    state.push_back(kernel.value(low));
  }
  state.push_back(initial);
  auto add = [&](Value first, ValueRange carried) -> KernelBuilder::Values {
    KernelBuilder::Values point(carried.drop_back()), loaded;
    for (int64_t number = 0; number < atOnce; ++number) {
      loaded.push_back(load(point));
      point = getNextPoint(kernel, ranges, point);
    }
    Value sum = carried.back();
    for (auto [number, addend] : llvm::enumerate(loaded)) {
      Value more = kernel.addF64(sum, addend);
      // Those behind the last are loaded, but are no part of the sum.
      sum = number == 0
                ? more
                : kernel.selectF(kernel.less(kernel.add(first, number), count),
                                 more, sum);
    }
    point.push_back(sum);
    return point;
  };
  return kernel.loop(0, count, atOnce, state, add).back();
}
