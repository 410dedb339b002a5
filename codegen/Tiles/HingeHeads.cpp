//===- HingeHeads.cpp - Piecewise-linear functions of all heads -----------===//
//
// In a score of all heads a function has one table per head. Arguments mostly
// do not need the head, and then neither do their range and, with knots that do
// not either, the segments that a tile reaches into: all that is left to each
// head is its lines.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tiles/HingeCells.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// What does not need the head
//===----------------------------------------------------------------------===//

HingeCells::Shared HingeCells::findShared(pos::HingeSumOp op) const {
  pos::Dependence dependence(plan.owner);
  auto needsHead = [&](ValueRange values) {
    return dependence.of(values).contains(pos::Axis::head);
  };
  // Knots are where a x + b is zero.
  Operation *units = op.getUnits().getBody().front().getTerminator();
  return {!needsHead(op.getValue()),
          !needsHead(units->getOperands().slice(3, 2))};
}

//===----------------------------------------------------------------------===//
// Segments of a tile, i64 [heads][2]
//===----------------------------------------------------------------------===//

Value HingeCells::getReachAddress(unsigned number, Index head) const {
  Value end = kernel.advance(memory, {getStart(number + 1)});
  return kernel.advance(end, {kernel.mul(kernel.sub(head, plan.scoreHeads), 2)},
                        kernel.i64);
}

void HingeCells::storeReach(unsigned number, Index head, const Reach &reach) {
  Value at = getReachAddress(number, head);
  kernel.store(reach.low, at);
  kernel.store(reach.high, kernel.advance(at, {1}, kernel.i64));
}

HingeCells::Reach HingeCells::loadReach(unsigned number, Index head) {
  Value at = getReachAddress(number, head);
  Value low = kernel.load(kernel.i64, at);
  Value high = kernel.load(kernel.i64, kernel.advance(at, {1}, kernel.i64));
  return {low, high, kernel.equal(low, high)};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void HingeCells::fillAllHeads(unsigned number, KernelSite &site,
                              MoveTo moveTo) {
  Index batch = site.getPlace().first;
  auto [sharesArgument, sharesKnots] = shared[number];
  bool sharesReach = sharesArgument && sharesKnots;
  Values range;
  Reach reach;
  if (sharesArgument) {
    site.enterHead(batch, Index(0));
    range = fillArguments(number, site, moveTo);
  }
  if (sharesReach)
    reach = findReach(number, getTable(number, batch, 0), range);
  kernel.loop(0, plan.scoreHeads, 1, [&](Value head) {
    site.enterHead(batch, head);
    if (!sharesArgument)
      range = fillArguments(number, site, moveTo);
    Value table = getTable(number, batch, head);
    Reach own = sharesReach ? reach : findReach(number, table, range);
    storeReach(number, head, own);
    emitValues({number, head, table, own});
  });
  site.enterHead(batch, Index(0));
}
