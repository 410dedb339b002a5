//===- BackwardSweeps.cpp - Sweeps over tiles of keys for scans -----------===//

#include "codegen/CPU/Backward/BackwardSweeps.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void BackwardSweeps::clearHead(ArrayRef<State> states, Index first,
                               Index rows) {
  for (State state : states)
    point.scans.clear(state, first, rows);
}

void BackwardSweeps::clear(ArrayRef<State> states, Index firstHead,
                           Index heads) {
  Index end = at.kernel.add(firstHead, heads);
  at.kernel.loop(firstHead, end, 1, [&](Value head) {
    point.enterHead(at.batch, head);
    if (!at.launch.keyRows)
      return clearHead(states, 0,
                       at.arguments.getSize(*at.launch.queryGradient, 3));
    at.forEachBlock(
        [&](Value first) { clearHead(states, first, at.shape.queries); });
  });
}

void BackwardSweeps::forEach(Index firstHead, Index heads,
                             function_ref<void()> sweep) {
  const KernelPlan &plan = at.launch.plan;
  if (plan.scans.empty())
    return sweep();
  clear({State::Carry, State::Total, State::Passed}, firstHead, heads);
  unsigned levels = *llvm::max_element(plan.scanLevels) + 1;
  if (levels == 1 && !at.shape.isNear)
    return forBothSweeps(firstHead, heads, sweep);
  for (unsigned level = 0; level < levels; ++level) {
    point.scans.setSweep(BackwardScans::Sweep::Totals, level);
    sweep();
    clear({State::Carry}, firstHead, heads);
    // Scans of lower levels have passed their cotangents on.
    if (level > 0)
      clear({State::Passed}, firstHead, heads);
  }
  point.scans.setSweep(BackwardScans::Sweep::Gradients);
  sweep();
}

void BackwardSweeps::forBothSweeps(Index firstHead, Index heads,
                                   function_ref<void()> sweep) {
  KernelBuilder &kernel = at.kernel;
  Value areMore = kernel.less(at.shape.keys, at.getLength(pos::Side::key));
  sweepCount = kernel.select(areMore, 2, 1);
  ofBlock = kernel.select(areMore, 1, 2);
  kernel.loop(0, *sweepCount, 1, [&](Value sweepNumber) {
    number = sweepNumber;
    kernel.when(kernel.less(0, number),
                [&] { clear({State::Carry}, firstHead, heads); });
    sweep();
  });
}

void BackwardSweeps::forBlock(function_ref<void()> body) {
  if (!sweepCount)
    return body();
  KernelBuilder &kernel = at.kernel;
  kernel.loop(0, ofBlock, 1, [&](Value step) {
    kernel.when(
        kernel.equal(kernel.add(number, step), 0),
        [&] {
          point.scans.setSweep(BackwardScans::Sweep::Totals, 0);
          body();
        },
        [&] {
          kernel.when(kernel.less(0, step), [&] {
            clearHead({State::Carry}, at.firstQuery, at.shape.queries);
          });
          point.scans.setSweep(BackwardScans::Sweep::Gradients);
          body();
        });
  });
}

void BackwardSweeps::forGradients(function_ref<void()> body) {
  if (sweepCount)
    at.kernel.when(at.kernel.equal(at.kernel.add(number, 1), *sweepCount),
                   body);
  else if (!isForTotals())
    body();
}

Value BackwardSweeps::emitRest(Value isSeen) {
  if (isForTotals())
    if (Value done = point.scans.emitSaturated(at.firstQuery, at.shape.queries))
      return at.kernel.selectF(done, at.kernel.constantI1(false), isSeen);
  return isSeen;
}

Index BackwardSweeps::inOrder(Index place, Index count, int64_t step) {
  KernelBuilder &kernel = at.kernel;
  if (!at.launch.plan.isLeftward())
    return place;
  Index last = kernel.mul(kernel.div(kernel.sub(count, 1), step), step);
  return kernel.sub(last, place);
}

void BackwardSweeps::emitCell(Index group, function_ref<void()> cell) {
  if (at.launch.plan.scans.empty())
    return cell();
  Value isSaturated = point.scans.emitSaturated(
      at.kernel.add(at.firstQuery, group), at.shape.rows);
  if (!isSaturated)
    return cell();
  auto emitSaturated = [&] {
    point.scans.setSaturated(true);
    if (!isForTotals())
      cell();
    point.scans.setSaturated(false);
  };
  at.kernel.when(isSaturated, emitSaturated, cell);
}
