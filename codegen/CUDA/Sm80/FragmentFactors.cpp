//===- FragmentFactors.cpp - The factors of a hinge product ---------------===//

#include "codegen/CUDA/Sm80/FragmentFactors.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpFPredicate;
using Values = KernelBuilder::Values;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Each is read once.
FragmentFactors::Elements FragmentFactors::load() {
  Elements factors;
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, Value> known;
  bool rowsAreKeys = tile.rowSide == pos::Side::key;
  auto load = [&](const Hoisted *hoisted, int64_t entry) {
    Value &value = known[{hoisted, entry}];
    if (!value)
      value = point.hoisted(kernel.builder, hoisted->op);
    return value;
  };
  for (const FragmentElement &element : tile.getElements()) {
    point.setElement(element);
    factors.ofOffsets.push_back(
        load(get().ofOffsets, element.column - element.row));
    factors.ofQueries.push_back(
        load(get().ofQueries, rowsAreKeys ? element.column : element.row));
  }
  return factors;
}

/// Factors that are no finite numbers are those of hidden scores, whose
/// cotangents are 0, or of scores that are none, either: 0 in place of them
/// leaves both as they are.
FragmentFactors::Elements FragmentFactors::loadFinite() {
  Elements factors = load();
  Value zero = kernel.constantF32(0), none = kernel.constantF32(infinity);
  llvm::DenseMap<Value, Value> known;
  for (Values *values : {&factors.ofOffsets, &factors.ofQueries})
    for (Value &value : *values) {
      Value &own = known[value];
      if (!own) {
        Value size = math::AbsFOp::create(kernel.builder, kernel.loc, value);
        own = kernel.selectF(kernel.compareF(CmpFPredicate::OLT, size, none),
                             value, zero);
      }
      value = own;
    }
  return factors;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// Those of the warp's part of the tile, shared out among its lanes. They are
/// one fewer than rows and columns; the one behind the last is in the window,
/// too.
Values FragmentFactors::loadOffsets() {
  int64_t count = tile.countWarpRows() + tile.countWarpColumns();
  Values offsets;
  for (int64_t first = 0; first < count; first += warpLanes) {
    Value entry = thread.add(thread.lane, first);
    if (first + warpLanes > count)
      entry = thread.min(entry, thread.constant(count - 1));
    offsets.push_back(point.getWindows().loadOfWarp(*get().ofOffsets, entry));
  }
  return offsets;
}

/// A product is between those with the least and the greatest factor. Where a
/// factor is no finite number, one of these is none, either.
NumberRange FragmentFactors::findRange(NumberRange queries) {
  NumberRange range;
  for (Value offset : loadOffsets())
    for (Value query : {queries.first, queries.second}) {
      Value argument = kernel.mulF(offset, query);
      range = range.first ? NumberRange(thread.least(range.first, argument),
                                        thread.most(range.second, argument))
                          : NumberRange(argument, argument);
    }
  return range;
}

NumberRange FragmentFactors::findQueryRange() {
  Values all;
  if (tile.rowSide == pos::Side::query) {
    for (int64_t row = 0; row < tile.countThreadRows(); ++row) {
      point.setElement(FragmentElement::get(row / 2, 0, 2 * (row % 2)));
      all.push_back(point.hoisted(kernel.builder, get().ofQueries->op));
    }
  } else {
    assert(tile.countWarpColumns() % warpLanes == 0 &&
           "lanes have as many columns each");
    for (int64_t first = 0; first < tile.countWarpColumns(); first += warpLanes)
      all.push_back(point.getWindows().loadOfWarp(
          *get().ofQueries, thread.add(thread.lane, first)));
  }
  NumberRange range{all.front(), all.front()};
  for (Value value : ArrayRef(all).drop_front())
    range = {thread.least(range.first, value),
             thread.most(range.second, value)};
  return acrossWarp(range);
}

/// Both at once: half of the lanes join one, the others the negative of the
/// other.
NumberRange FragmentFactors::acrossWarp(NumberRange range) {
  constexpr int64_t half = warpLanes / 2;
  Value isUpper = thread.less(thread.constant(half - 1), thread.lane);
  Value negative =
      arith::NegFOp::create(kernel.builder, kernel.loc, range.second);
  Value own = kernel.selectF(isUpper, negative, range.first);
  Value given = kernel.selectF(isUpper, range.first, negative);
  own = thread.least(own, thread.shuffleXor(given, half));
  for (int64_t apart = half / 2; apart >= 1; apart /= 2)
    own = thread.least(own, thread.shuffleXor(own, apart));
  Value other = thread.shuffleXor(own, half);
  Value most = kernel.selectF(isUpper, own, other);
  return {kernel.selectF(isUpper, other, own),
          arith::NegFOp::create(kernel.builder, kernel.loc, most)};
}
