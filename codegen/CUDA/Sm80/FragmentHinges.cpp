//===- FragmentHinges.cpp - Piecewise-linear functions of fragments -------===//

#include "codegen/CUDA/Sm80/FragmentHinges.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpFPredicate;
using Values = KernelBuilder::Values;

PiecewiseLinearLayout FragmentHinges::getLayout(unsigned number) const {
  const KernelPlan &plan = launch.plan;
  return PiecewiseLinearLayout(
      plan.hinges[plan.findHinges(plan.hingeSums[number])].op, lanes);
}

Values FragmentHinges::getArguments(unsigned number,
                                    ArrayRef<FragmentElement> elements) {
  pos::HingeSumOp op = launch.plan.hingeSums[number];
  return llvm::map_to_vector(elements, [&](const FragmentElement &element) {
    point.setElement(element);
    return callSlice(kernel, *op->getBlock(), op.getValue(), point);
  });
}

Value FragmentHinges::acrossWarp(Value value,
                                 function_ref<Value(Value, Value)> join) {
  for (int64_t apart = warpLanes / 2; apart >= 1; apart /= 2)
    value = join(value, thread.shuffleXor(value, apart));
  return value;
}

/// How many knots compare so with a number that is the same in all lanes: each
/// lane compares one of 32.
Value FragmentHinges::countKnots(Value table,
                                 const PiecewiseLinearLayout &layout,
                                 CmpFPredicate predicate, Value bound) {
  int64_t padded = layout.jumps - layout.knots;
  auto count = [&](Index first, Value known) {
    Value knot = kernel.loadF32(
        table, {kernel.fromI32(thread.lane), first, layout.knots});
    Value holds = kernel.compareF(predicate, knot, bound);
    return thread.add(known, thread.countBits(thread.ballot(holds)));
  };
  assert(padded % warpLanes == 0 && "knots are padded to a warp");
  return kernel.loop(0, padded, warpLanes, thread.constant(0),
                     [&](Value first, ValueRange known) -> Values {
                       return {count(first, known[0])};
                     })[0];
}

FragmentHinges::Reach
FragmentHinges::findReach(unsigned number, ArrayRef<FragmentElement> elements) {
  Values all = getArguments(number, elements);
  Value least = all.front(), most = all.front();
  for (Value argument : ArrayRef(all).drop_front()) {
    least = thread.minNumber(least, argument);
    most = thread.maxNumber(most, argument);
  }
  return findReach(
      number, getTable(number),
      acrossWarp(least,
                 [&](Value a, Value b) { return thread.minNumber(a, b); }),
      acrossWarp(most,
                 [&](Value a, Value b) { return thread.maxNumber(a, b); }));
}

Value FragmentHinges::getTable(unsigned number) {
  const KernelPlan &plan = launch.plan;
  auto [batch, head] = point.getPlace();
  unsigned table = launch.sites.hinges[plan.findHinges(plan.hingeSums[number])];
  return arguments.getAddress(table, {batch, head});
}

FragmentHinges::Reach FragmentHinges::findReach(unsigned number, Value table,
                                                Value least, Value most) {
  Reach reach;
  reach.table = table;
  PiecewiseLinearLayout layout = getLayout(number);
  Value units = thread.constant(layout.units);
  // Padding is above no finite number. Where all are NaN, any segment will do.
  reach.low = thread.min(
      countKnots(reach.table, layout, CmpFPredicate::OLT, least), units);
  Value high = thread.min(
      countKnots(reach.table, layout, CmpFPredicate::OLE, most), units);
  reach.high = thread.max(high, reach.low);
  return reach;
}

Value FragmentHinges::enterTile(ArrayRef<FragmentElement> elements) {
  if (block == kernel.builder.getInsertionBlock())
    return areOne;
  block = kernel.builder.getInsertionBlock();
  reaches.clear();
  areOne = {};
  for (unsigned number = 0; number < launch.plan.hingeSums.size(); ++number) {
    reaches.push_back(findReach(number, elements));
    Value isOne = arith::CmpIOp::create(
        kernel.builder, kernel.loc, arith::CmpIPredicate::eq,
        reaches.back().low, reaches.back().high);
    areOne = kernel.both(areOne, isOne);
  }
  return areOne;
}

Values FragmentHinges::emitLine(const Reach &reach,
                                const PiecewiseLinearLayout &layout,
                                Index segment, ValueRange all) {
  Value slope = kernel.loadF32(reach.table, {segment, layout.slopes});
  Value intercept = kernel.loadF32(reach.table, {segment, layout.intercepts});
  return llvm::map_to_vector(all, [&](Value argument) {
    return kernel.fma(argument, slope, intercept);
  });
}

void FragmentHinges::fill(ArrayRef<FragmentElement> elements, bool isOneLine) {
  for (auto [number, reach] : llvm::enumerate(reaches)) {
    const Reach &own = reach;
    PiecewiseLinearLayout layout = getLayout(number);
    Values all = getArguments(number, elements);
    Values results = emitLine(own, layout, kernel.fromI32(own.low), all);
    if (!isOneLine)
      results = kernel.loop(
          kernel.fromI32(own.low), kernel.fromI32(own.high), 1, results,
          [&](Value knot, ValueRange before) -> Values {
            Value here = kernel.loadF32(own.table, {knot, layout.knots});
            Values after = emitLine(own, layout, kernel.add(knot, 1), all);
            for (auto [value, argument, known] :
                 llvm::zip_equal(after, all, before))
              value = kernel.selectF(
                  kernel.compareF(CmpFPredicate::OGT, argument, here), value,
                  known);
            return after;
          });
    point.hingeValues.set(launch.plan.hingeSums[number], elements, results);
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void FragmentHinges::fillSlopes(ArrayRef<FragmentElement> elements,
                                bool isOneLine) {
  Value half = kernel.constantF32(0.5), zero = kernel.constantF32(0);
  for (auto [number, reach] : llvm::enumerate(reaches)) {
    const Reach &own = reach;
    PiecewiseLinearLayout layout = getLayout(number);
    Value slope =
        kernel.loadF32(own.table, {kernel.fromI32(own.low), layout.slopes});
    Values slopes(elements.size(), slope);
    if (!isOneLine) {
      Values all = getArguments(number, elements);
      slopes = kernel.loop(
          kernel.fromI32(own.low), kernel.fromI32(own.high), 1, slopes,
          [&](Value knot, ValueRange before) -> Values {
            Value here = kernel.loadF32(own.table, {knot, layout.knots});
            Value jump = kernel.loadF32(own.table, {knot, layout.jumps});
            Value halfJump = kernel.mulF(jump, half);
            Values after;
            for (auto [argument, known] : llvm::zip_equal(all, before)) {
              Value isAbove =
                  kernel.compareF(CmpFPredicate::OGT, argument, here);
              Value isOn = kernel.compareF(CmpFPredicate::OEQ, argument, here);
              Value change = kernel.selectF(
                  isAbove, jump, kernel.selectF(isOn, halfJump, zero));
              after.push_back(kernel.addF(known, change));
            }
            return after;
          });
    }
    point.hingeSlopes.set(launch.plan.hingeSums[number], elements, slopes);
  }
}

/// A score without a cotangent (of a hidden key) may have any argument.
void FragmentHinges::addSums(ValueRange all, ValueRange cotangents, Value sum,
                             Value product) {
  Value zero = kernel.constantF32(0), ofAll = zero, ofProducts = zero;
  for (auto [argument, cotangent] : llvm::zip_equal(all, cotangents)) {
    Value isSeen = kernel.compareF(CmpFPredicate::UNE, cotangent, zero);
    ofAll = kernel.addF(ofAll, cotangent);
    ofProducts = kernel.fma(cotangent, kernel.selectF(isSeen, argument, zero),
                            ofProducts);
  }
  addSums(ofAll, ofProducts, sum, product);
}

/// Both at once: half of the lanes sum up one, the others the other one. No
/// lane waits for the moments, to which one thread each adds, in its order.
void FragmentHinges::addSums(Value ofAll, Value ofProducts, Value sum,
                             Value product) {
  constexpr int64_t half = warpLanes / 2;
  Value isUpper = thread.less(thread.constant(half - 1), thread.lane);
  Value own = kernel.selectF(isUpper, ofProducts, ofAll);
  Value given = kernel.selectF(isUpper, ofAll, ofProducts);
  for (int64_t apart = half; apart >= 1; apart /= 2)
    own =
        kernel.addF(own, thread.shuffleXor(apart == half ? given : own, apart));
  Value place = thread.select(isUpper, product, sum);
  kernel.when(kernel.equal(kernel.fromI32(thread.rem(thread.lane, half)), 0),
              [&] { thread.addAtomically(kernel.widen(own), place); });
}

void FragmentHinges::addMoments(unsigned number,
                                ArrayRef<FragmentElement> elements,
                                ValueRange cotangents, Value moments) {
  const Reach &reach = reaches[number];
  PiecewiseLinearLayout layout = getLayout(number);
  Values all = getArguments(number, elements);
  auto at = [&](Index segment, PiecewiseLinearLayout::Moment moment) {
    Index place = kernel.add(segment, layout.getMoment(moment));
    return kernel.advance(moments, {place}, kernel.f64);
  };
  Index low = kernel.fromI32(reach.low);
  // All points lie in the lowest segment at least.
  addSums(all, cotangents, at(low, PiecewiseLinearLayout::segmentSum),
          at(low, PiecewiseLinearLayout::segmentProduct));
  // Knots inside the range of the tile: some points lie above, some do not.
  Value zero = kernel.constantF32(0), half = kernel.constantF32(0.5);
  kernel.loop(low, kernel.fromI32(reach.high), 1, [&](Value knot) {
    Value here = kernel.loadF32(reach.table, {knot, layout.knots});
    Values parts;
    for (auto [argument, cotangent] : llvm::zip_equal(all, cotangents)) {
      Value isAbove = kernel.compareF(CmpFPredicate::OGT, argument, here);
      Value isOn = kernel.compareF(CmpFPredicate::OEQ, argument, here);
      parts.push_back(kernel.selectF(
          isAbove, cotangent,
          kernel.selectF(isOn, kernel.mulF(cotangent, half), zero)));
    }
    addSums(all, parts, at(knot, PiecewiseLinearLayout::knotSum),
            at(knot, PiecewiseLinearLayout::knotProduct));
  });
}
