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
