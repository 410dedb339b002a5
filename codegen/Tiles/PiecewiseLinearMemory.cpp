//===- PiecewiseLinearMemory.cpp - Functions of a tile in memory ----------===//

#include "codegen/Tiles/PiecewiseLinearMemory.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static PiecewiseLinearMemory::Shared findShared(const KernelPlan &plan,
                                                pos::HingeSumOp op) {
  pos::Dependence dependence(plan.owner);
  auto needsHead = [&](ValueRange values) {
    return dependence.of(values).contains(pos::Axis::head);
  };
  // Knots are where a x + b is zero.
  Operation *units = op.getUnits().getBody().front().getTerminator();
  return {!needsHead(op.getValue()),
          !needsHead(units->getOperands().slice(3, 2))};
}

/// A line more, so that points of different heads do not share a set of the
/// cache.
static int64_t getHeadStride(const KernelPlan &plan, int64_t elements) {
  return plan.scoreHeads ? elements + cacheLine : elements;
}

PiecewiseLinearMemory::PiecewiseLinearMemory(KernelBuilder &kernel,
                                             const KernelPlan &plan,
                                             Value memory, int64_t elements)
    : kernel(kernel), plan(plan), memory(memory),
      stride(getHeadStride(plan, elements)),
      functionWords(countFunctionWords(plan, elements)) {
  for (pos::HingeSumOp op : plan.hingeSums)
    shared.push_back(findShared(plan, op));
}

int64_t PiecewiseLinearMemory::countFunctionWords(const KernelPlan &plan,
                                                  int64_t elements) {
  int64_t heads = std::max<int64_t>(plan.scoreHeads, 1);
  return numColumns * heads * getHeadStride(plan, elements) +
         llvm::alignTo(4 * plan.scoreHeads, cacheLine);
}

Value PiecewiseLinearMemory::at(unsigned number, Index head, Column column,
                                Index place) const {
  Index inColumn = place;
  int64_t heads = std::max<int64_t>(plan.scoreHeads, 1);
  if (plan.scoreHeads && !(column == argument && shared[number].argument))
    inColumn = kernel.add(place, kernel.mul(head, stride));
  return kernel.advance(
      memory, {inColumn, number * functionWords + column * heads * stride});
}

Value PiecewiseLinearMemory::getReachAddress(unsigned number,
                                             Index head) const {
  Value end = kernel.advance(memory, {(number + 1) * functionWords});
  return kernel.advance(end, {kernel.mul(kernel.sub(head, plan.scoreHeads), 2)},
                        kernel.i64);
}

void PiecewiseLinearMemory::storeReach(unsigned number, Index head,
                                       const SegmentRange &reach) const {
  Value at = getReachAddress(number, head);
  kernel.store(reach.low, at);
  kernel.store(reach.high, kernel.advance(at, {1}, kernel.i64));
}

SegmentRange PiecewiseLinearMemory::loadReach(unsigned number,
                                              Index head) const {
  Value at = getReachAddress(number, head);
  Value low = kernel.load(kernel.i64, at);
  Value high = kernel.load(kernel.i64, kernel.advance(at, {1}, kernel.i64));
  return {low, high, kernel.equal(low, high)};
}
