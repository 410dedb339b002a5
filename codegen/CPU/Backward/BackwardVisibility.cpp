//===- BackwardVisibility.cpp - Which scores the mask leaves --------------===//

#include "codegen/CPU/Backward/BackwardVisibility.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

TileSide BackwardVisibility::enter(pos::Side side, Index first, int64_t unit) {
  Index rest = at.kernel.sub(at.getLength(side), first);
  return mask.enter(side, first, at.kernel.min(unit, rest), unit);
}

Visibility BackwardVisibility::classify(const TileSide &query, Index queryEnd,
                                        const TileSide &key, Index keyEnd) {
  KernelBuilder &kernel = at.kernel;
  // A rectangle is whole if all of it exists and is visible.
  auto isWithin = [&](Index end, pos::Side side) {
    return kernel.compare(arith::CmpIPredicate::sle, end, at.getLength(side));
  };
  Value exists = isWithin(queryEnd, pos::Side::query);
  exists = kernel.both(exists, isWithin(keyEnd, pos::Side::key));
  if (!at.launch.plan.mask)
    return {exists, kernel.constantI1(true)};
  TileClass known = mask.classify(query, key);
  return {known.certain ? kernel.both(exists, known.certain)
                        : kernel.constantI1(false),
          known.possible ? known.possible : kernel.constantI1(true)};
}

Value BackwardVisibility::emitLanes() {
  KernelBuilder &kernel = at.kernel;
  // Lanes past the last key and rows past the last query are hidden as well.
  Value visible = kernel.lanesBelow(
      kernel.sub(at.getLength(pos::Side::key), point.getKey()));
  Value isRow = kernel.broadcast(
      kernel.less(point.getQuery(), at.getLength(pos::Side::query)));
  visible = kernel.both(visible, isRow);
  pos::MaskOp mask = at.launch.plan.mask;
  if (!mask)
    return visible;
  auto seen = callPayload(kernel, mask.getBody().front(), {}, point);
  return kernel.both(visible, kernel.broadcast(seen.front()));
}

SeenPanels::SeenPanels(BackwardItem &at) : at(at) {
  int64_t groups = at.shape.queries / at.shape.rows;
  lowest = at.reserve(2 * groups);
  highest = at.reserve(2 * groups);
}

SeenPanels::Range<Value> SeenPanels::getAddresses(Index group) {
  Index number = kernel.div(group, at.shape.rows);
  return {kernel.advance(lowest, {number}, kernel.i64),
          kernel.advance(highest, {number}, kernel.i64)};
}

void SeenPanels::clear() {
  kernel.loop(0, at.groupEnd, at.shape.rows, [&](Value group) {
    auto [low, high] = getAddresses(group);
    kernel.store(kernel.value(at.panelCount), low);
    kernel.store(kernel.constantI64(0), high);
  });
}

void SeenPanels::add(Index group, Index panel) {
  auto [lowAt, highAt] = getAddresses(group);
  Index low = kernel.load(kernel.i64, lowAt);
  kernel.store(kernel.value(kernel.min(low, panel)), lowAt);
  Index high = kernel.load(kernel.i64, highAt);
  kernel.store(kernel.value(kernel.max(high, kernel.add(panel, 1))), highAt);
}

SeenPanels::Range<Index> SeenPanels::getOfBlock() {
  KernelBuilder::Values hull =
      kernel.loop(0, at.groupEnd, at.shape.rows,
                  {kernel.value(at.panelCount), kernel.constantI64(0)},
                  [&](Value group, ValueRange known) -> KernelBuilder::Values {
                    auto [low, high] = get(group);
                    return {kernel.value(kernel.min(Index(known[0]), low)),
                            kernel.value(kernel.max(Index(known[1]), high))};
                  });
  return {hull[0], hull[1]};
}

SeenPanels::Range<Index> SeenPanels::get(Index group) {
  auto [low, high] = getAddresses(group);
  return {kernel.load(kernel.i64, low), kernel.load(kernel.i64, high)};
}
