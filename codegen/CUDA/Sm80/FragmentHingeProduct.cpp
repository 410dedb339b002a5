//===- FragmentHingeProduct.cpp - Hinges of a product of two factors ------===//

#include "codegen/CUDA/Sm80/FragmentHingeProduct.h"
#include "codegen/CUDA/Sm80/FragmentSums.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpFPredicate;
using Values = KernelBuilder::Values;
using Layout = PiecewiseLinearLayout;

static constexpr double infinity = std::numeric_limits<double>::infinity();
/// Of the first segment in a reach.
static constexpr int64_t reachBits = 16;

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// At the elements of the thread, each read once.
FragmentHingeProduct::Factors FragmentHingeProduct::loadFactors() {
  Factors factors;
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

/// Those of the warp's part of the tile, shared out among its lanes. They are
/// one fewer than rows and columns; the one behind the last is in the window,
/// too.
Values FragmentHingeProduct::loadOffsets() {
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

/// In all lanes; NaN where one is. Both at once: half of the lanes join one,
/// the others the negative of the other.
FragmentHingeProduct::Range FragmentHingeProduct::acrossWarp(Range range) {
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

/// A product is between those with the least and the greatest factor. Where a
/// factor is no finite number, one of these is none, either.
FragmentHingeProduct::Range FragmentHingeProduct::multiply(ValueRange offsets,
                                                           Range queries) {
  Range range;
  for (Value offset : offsets)
    for (Value query : {queries.first, queries.second}) {
      Value argument = kernel.mulF(offset, query);
      range = range.first ? Range(thread.least(range.first, argument),
                                  thread.most(range.second, argument))
                          : Range(argument, argument);
    }
  return range;
}

FragmentHingeProduct::Range FragmentHingeProduct::findQueryRange() {
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
  Range range{all.front(), all.front()};
  for (Value value : ArrayRef(all).drop_front())
    range = {thread.least(range.first, value),
             thread.most(range.second, value)};
  return acrossWarp(range);
}

//===----------------------------------------------------------------------===//
// The segment of a tile
//===----------------------------------------------------------------------===//

Values FragmentHingeProduct::enterHead(FindMoments find) {
  moments = std::move(find);
  table = hinges.getTable(0);
  if (tile.rowSide == pos::Side::query)
    queryRange = findQueryRange();
  // No tile lies in the segment of this state.
  Value zero = kernel.constantF32(0), none = kernel.constantF32(infinity);
  Values state{thread.constant(0), none, none, zero, zero};
  if (moments)
    state.append(2, zero);
  return state;
}

void FragmentHingeProduct::enterTile(MutableArrayRef<Value> state) {
  Values offsets = loadOffsets();
  Range queries = queryRange;
  if (tile.rowSide == pos::Side::key)
    queries = findQueryRange();
  Range range = multiply(offsets, queries);
  Value isInside = kernel.both(
      kernel.compareF(CmpFPredicate::OGT, range.first, state[below]),
      kernel.compareF(CmpFPredicate::OLT, range.second, state[above]));
  Value isKnown = isEverywhere(isInside);
  SmallVector<Type> types{kernel.i32};
  llvm::append_range(types, ValueRange(state).getTypes());
  Values found = kernel.choose(
      isKnown, types,
      [&] {
        Values same{thread.constant(0)};
        llvm::append_range(same, state);
        return same;
      },
      [&] { return findLine(range, state); });
  reach = found.front();
  llvm::copy(ArrayRef(found).drop_front(), state.begin());
  // The same in all lanes, which a ballot says to compilers.
  isOneLine = isEverywhere(kernel.equal(kernel.fromI32(reach), 0));
  addend = kernel.selectF(isOneLine, state[intercept], kernel.constantF32(0));
  lineSlope = state[slope];
}

Value FragmentHingeProduct::isEverywhere(Value condition) {
  return kernel.equal(kernel.fromI32(thread.ballot(condition)),
                      kernel.fromI32(thread.constant(-1)));
}

/// A reach and a state.
Values FragmentHingeProduct::findLine(Range range, ValueRange state) {
  range = acrossWarp(range);
  FragmentHinges::Reach found =
      hinges.findReach(0, table, range.first, range.second);
  Value isFinite = kernel.both(kernel.compareF(CmpFPredicate::OGT, range.first,
                                               kernel.constantF32(-infinity)),
                               kernel.compareF(CmpFPredicate::OLT, range.second,
                                               kernel.constantF32(infinity)));
  Value units = thread.constant(hinges.getLayout(0).units);
  Value low = thread.select(isFinite, found.low, thread.constant(0));
  Value high = thread.select(isFinite, found.high, units);
  Value isOne = isEverywhere(kernel.both(
      isFinite, kernel.equal(kernel.fromI32(low), kernel.fromI32(high))));
  SmallVector<Type> types{kernel.i32};
  llvm::append_range(types, state.getTypes());
  return kernel.choose(
      isOne, types,
      [&] {
        Values next{thread.constant(0)};
        llvm::append_range(next, moveTo(low, state));
        return next;
      },
      [&] {
        Values next{thread.add(thread.mul(high, 1 << reachBits), low)};
        llvm::append_range(next, state);
        return next;
      });
}

/// The state at a tile that lies in a segment.
Values FragmentHingeProduct::moveTo(Value number, ValueRange state) {
  Layout layout = hinges.getLayout(0);
  auto load = [&](Index place, int64_t column) {
    return kernel.loadF32(table, {place, column});
  };
  Index own = kernel.fromI32(number);
  // Without a branch: what lanes do together follows.
  auto loadKnot = [&](Value isThere, Index knot, double otherwise) {
    return kernel.selectF(isThere, load(knot, layout.knots),
                          kernel.constantF32(otherwise));
  };
  Value first = thread.constant(0), last = thread.constant(layout.units);
  Values next(state);
  next[segment] = number;
  next[below] = loadKnot(
      thread.less(first, number),
      kernel.fromI32(thread.max(thread.add(number, -1), first)), -infinity);
  next[above] = loadKnot(
      thread.less(number, last),
      kernel.fromI32(thread.min(number, thread.add(last, -1))), infinity);
  next[intercept] = kernel.mulF(load(own, layout.intercepts),
                                kernel.constantF32(payloadFactor));
  next[slope] = load(own, layout.slopes);
  if (moments) {
    flush(state);
    next[sum] = next[product] = kernel.constantF32(0);
  }
  return next;
}

void FragmentHingeProduct::enterReach() {
  Value low = thread.rem(reach, 1 << reachBits);
  Value high = thread.div(reach, 1 << reachBits);
  hinges.enterReach({table, low, high});
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Values FragmentHingeProduct::emitLine(ValueRange products) {
  Factors factors = loadFactors();
  Value scaled = kernel.mulF(lineSlope, kernel.constantF32(payloadFactor));
  llvm::DenseMap<Value, Value> ofQueries;
  Values scores;
  for (auto [sum, offset, query] :
       llvm::zip_equal(products, factors.ofOffsets, factors.ofQueries)) {
    Value &factor = ofQueries[query];
    if (!factor)
      factor = kernel.mulF(query, scaled);
    scores.push_back(kernel.fma(offset, factor, sum));
  }
  return scores;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

Value FragmentHingeProduct::getMoment(Value all, Index number,
                                      Layout::Moment moment) {
  Index place = kernel.add(number, hinges.getLayout(0).getMoment(moment));
  return kernel.advance(all, {place}, kernel.f64);
}

void FragmentHingeProduct::flush(ValueRange state) {
  Value all = moments();
  Index number = kernel.fromI32(state[segment]);
  hinges.addSums(state[sum], state[product],
                 getMoment(all, number, Layout::segmentSum),
                 getMoment(all, number, Layout::segmentProduct));
}

void FragmentHingeProduct::finishHead(ValueRange state) {
  if (moments)
    flush(state);
}

Value FragmentHingeProduct::sumProducts(ValueRange columns,
                                        ValueRange ofQueries, Value sum) {
  // Columns are [8 columns][half], elements [block][8 columns][row][half].
  for (auto [number, column] : llvm::enumerate(columns))
    sum = kernel.fma(column,
                     ofQueries[tile.getNumber(0, number / 2, number % 2)], sum);
  return sum;
}

void FragmentHingeProduct::addGradients(FragmentSums &sums,
                                        ValueRange cotangents,
                                        MutableArrayRef<Value> state) {
  int64_t count = sums.countDiagonals() + sums.countColumns() + 1;
  SmallVector<Type> types(count + (moments ? 2 : 0), kernel.f32);
  Values found = kernel.choose(
      isOneLine, types, [&] { return addOnLine(sums, cotangents, state); },
      [&] { return addOnSegments(sums, cotangents, state); });
  ValueRange left = found;
  auto take = [&](int64_t number) {
    ValueRange taken = left.take_front(number);
    left = left.drop_front(number);
    return taken;
  };
  ValueRange diagonals = take(sums.countDiagonals());
  if (get().ofOffsets->wantsGradient)
    sums.storeDiagonals(0, diagonals);
  ValueRange columns = take(sums.countColumns());
  Value factor = take(1).front();
  if (get().ofQueries->wantsGradient)
    sums.storeColumns(0, Values(columns), factor);
  llvm::copy(left, state.begin() + sum);
}

/// Each factor is scaled once.
static Values scale(KernelBuilder &kernel, ValueRange numbers, Value factor) {
  llvm::DenseMap<Value, Value> known;
  return llvm::map_to_vector(numbers, [&](Value number) {
    Value &own = known[number];
    if (!own)
      own = kernel.mulF(number, factor);
    return own;
  });
}

static Value add(KernelBuilder &kernel, ValueRange numbers) {
  Value sum = numbers.front();
  for (Value number : numbers.drop_front())
    sum = kernel.addF(sum, number);
  return sum;
}

/// Sums of the cotangents times the factors of queries, along diagonals; times
/// those of offsets, of columns; what the latter are still to be multiplied
/// with; and the moments of the state.
Values FragmentHingeProduct::addOnLine(FragmentSums &sums,
                                       ValueRange cotangents,
                                       ValueRange state) {
  Factors factors = loadFactors();
  Values found = sums.sumDiagonals(cotangents,
                                   scale(kernel, factors.ofQueries, lineSlope));
  Values columns = sums.sumRows(cotangents, factors.ofOffsets);
  llvm::append_range(found, columns);
  found.push_back(lineSlope);
  if (moments) {
    found.push_back(kernel.addF(state[sum], add(kernel, cotangents)));
    found.push_back(sumProducts(columns, factors.ofQueries, state[product]));
  }
  return found;
}

/// Factors that are no finite numbers are those of hidden scores, whose
/// cotangents are 0, or of scores that are none, either: 0 in place of them
/// leaves both as they are.
void FragmentHingeProduct::makeFinite(Values &factors) {
  Value zero = kernel.constantF32(0), none = kernel.constantF32(infinity);
  llvm::DenseMap<Value, Value> known;
  for (Value &value : factors) {
    Value &own = known[value];
    if (!own) {
      Value size = math::AbsFOp::create(kernel.builder, kernel.loc, value);
      own = kernel.selectF(kernel.compareF(CmpFPredicate::OLT, size, none),
                           value, zero);
    }
    value = own;
  }
}

/// All points lie in the lowest segment at least, and above a number of knots.
/// On a knot the slope is the mean of both sides, and a cotangent counts half.
Values FragmentHingeProduct::addOnSegments(FragmentSums &sums,
                                           ValueRange cotangents,
                                           ValueRange state) {
  enterReach();
  // For each segment anew: there is no room for them beside the sums.
  auto load = [&] {
    Factors factors = loadFactors();
    makeFinite(factors.ofOffsets);
    makeFinite(factors.ofQueries);
    return factors;
  };
  Layout layout = hinges.getLayout(0);
  const FragmentHinges::Reach reach = hinges.getReach();
  Index low = kernel.fromI32(reach.low);
  Value zero = kernel.constantF32(0), half = kernel.constantF32(0.5);
  Value all = moments ? moments() : Value();
  auto addParts = [&](const Factors &factors, ValueRange parts, Value slope,
                      Index number, Layout::Moment first, Layout::Moment second,
                      ValueRange before) {
    int64_t numDiagonals = sums.countDiagonals();
    Values found = sums.sumDiagonals(
        parts, scale(kernel, factors.ofQueries, slope),
        before.empty() ? before : before.take_front(numDiagonals));
    Values columns = sums.sumRows(parts, factors.ofOffsets);
    for (auto [at, column] : llvm::enumerate(columns))
      found.push_back(before.empty() ? kernel.mulF(column, slope)
                                     : kernel.fma(column, slope,
                                                  before[numDiagonals + at]));
    if (moments)
      hinges.addSums(
          add(kernel, parts), sumProducts(columns, factors.ofQueries, zero),
          getMoment(all, number, first), getMoment(all, number, second));
    return found;
  };
  Value lowest = kernel.loadF32(reach.table, {low, layout.slopes});
  Values found = addParts(load(), cotangents, lowest, low, Layout::segmentSum,
                          Layout::segmentProduct, {});
  found = kernel.rolledLoop(
      low, kernel.fromI32(reach.high), 1, found,
      [&](Value knot, ValueRange before) -> Values {
        Value here = kernel.loadF32(reach.table, {knot, layout.knots});
        Value jump = kernel.loadF32(reach.table, {knot, layout.jumps});
        Factors factors = load();
        Values parts;
        for (auto [offset, query, cotangent] : llvm::zip_equal(
                 factors.ofOffsets, factors.ofQueries, cotangents)) {
          Value argument = kernel.mulF(offset, query);
          Value isAbove = kernel.compareF(CmpFPredicate::OGT, argument, here);
          Value isOn = kernel.compareF(CmpFPredicate::OEQ, argument, here);
          parts.push_back(kernel.selectF(
              isAbove, cotangent,
              kernel.selectF(isOn, kernel.mulF(cotangent, half), zero)));
        }
        return addParts(factors, parts, jump, knot, Layout::knotSum,
                        Layout::knotProduct, before);
      });
  found.push_back(kernel.constantF32(1));
  if (moments)
    llvm::append_range(found, state.drop_front(sum));
  return found;
}
