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
/// A reach is the last segment, whether an argument is no finite number, and
/// the first segment.
static constexpr int64_t lowBits = 15, highBit = 16;
/// Scores whose arguments wait in registers while knots pass.
static constexpr size_t knotScores = 32;

//===----------------------------------------------------------------------===//
// The segment of a tile
//===----------------------------------------------------------------------===//

Values FragmentHingeProduct::enterHead(FindMoments find) {
  moments = std::move(find);
  table = hinges.getTable(0);
  if (tile.rowSide == pos::Side::query)
    queryRange = factors.findQueryRange();
  // No tile lies in the segment of this state.
  Value zero = kernel.constantF32(0), none = kernel.constantF32(infinity);
  Values state{thread.constant(0), none, none, zero, zero};
  if (moments)
    state.append(2, zero);
  return state;
}

void FragmentHingeProduct::enterTile(MutableArrayRef<Value> state) {
  NumberRange queries = queryRange;
  if (tile.rowSide == pos::Side::key)
    queries = factors.findQueryRange();
  NumberRange range = factors.findRange(queries);
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
  line = {state[intercept], state[slope]};
}

Value FragmentHingeProduct::isEverywhere(Value condition) {
  return kernel.equal(kernel.fromI32(thread.ballot(condition)),
                      kernel.fromI32(thread.constant(-1)));
}

/// A reach and a state.
Values FragmentHingeProduct::findLine(NumberRange range, ValueRange state) {
  range = factors.acrossWarp(range);
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
        Value isNone = thread.select(isFinite, thread.constant(0),
                                     thread.constant(1 << lowBits));
        Values next{thread.add(thread.add(thread.mul(high, 1 << highBit), low),
                               isNone)};
        llvm::append_range(next, state);
        return next;
      });
}

FragmentHingeProduct::Line FragmentHingeProduct::loadLine(Value number) {
  Layout layout = hinges.getLayout(0);
  auto load = [&](int64_t column) {
    return kernel.loadF32(table, {kernel.fromI32(number), column});
  };
  return {
      kernel.mulF(load(layout.intercepts), kernel.constantF32(payloadFactor)),
      load(layout.slopes)};
}

/// The state at a tile that lies in a segment.
Values FragmentHingeProduct::moveTo(Value number, ValueRange state) {
  Layout layout = hinges.getLayout(0);
  // Without a branch: what lanes do together follows.
  auto loadKnot = [&](Value isThere, Index knot, double otherwise) {
    return kernel.selectF(isThere, kernel.loadF32(table, {knot, layout.knots}),
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
  Line own = loadLine(number);
  next[intercept] = own.intercept;
  next[slope] = own.slope;
  if (moments) {
    flush(state);
    next[sum] = next[product] = kernel.constantF32(0);
  }
  return next;
}

/// The hinges stand at the tile, which reaches into several segments. Gives
/// whether all arguments are finite.
Value FragmentHingeProduct::enterReach() {
  Value low = thread.rem(reach, 1 << lowBits);
  Value high = thread.div(reach, 1 << highBit);
  hinges.enterReach({table, low, high});
  Value both = thread.rem(reach, 1 << (lowBits + 1));
  return isEverywhere(kernel.equal(kernel.fromI32(both), kernel.fromI32(low)));
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// With what is to be added to all of them behind.
Values FragmentHingeProduct::emit(ValueRange products,
                                  function_ref<Values()> emitSegments) {
  SmallVector<Type> types(products.getTypes());
  types.push_back(kernel.f32);
  Values scores = kernel.choose(
      isOneLine, types, [&] { return emitLine(products, line); },
      [&] {
        Value isFinite = enterReach();
        return kernel.choose(
            isFinite, types, [&] { return emitKnots(products); },
            [&] {
              Values all = emitSegments();
              all.push_back(kernel.constantF32(0));
              return all;
            });
      });
  addend = scores.pop_back_val();
  return scores;
}

Values FragmentHingeProduct::emitLine(ValueRange products, Line own) {
  FragmentFactors::Elements elements = factors.load();
  Value scaled = kernel.mulF(own.slope, kernel.constantF32(payloadFactor));
  llvm::DenseMap<Value, Value> ofQueries;
  Values scores;
  for (auto [sum, offset, query] :
       llvm::zip_equal(products, elements.ofOffsets, elements.ofQueries)) {
    Value &factor = ofQueries[query];
    if (!factor)
      factor = kernel.mulF(query, scaled);
    scores.push_back(kernel.fma(offset, factor, sum));
  }
  scores.push_back(own.intercept);
  return scores;
}

/// The line of the lowest segment, and for each knot the greater of it and the
/// argument, times its jump; what that is more below a knot is a part of the
/// addend. Scores of arguments that are not finite are hidden.
Values FragmentHingeProduct::emitKnots(ValueRange products) {
  const FragmentHinges::Reach own = hinges.getReach();
  Layout layout = hinges.getLayout(0);
  FragmentFactors::Elements elements = factors.load();
  Value unit = kernel.constantF32(payloadFactor);
  Line lowest = loadLine(own.low);
  Value slope = kernel.mulF(lowest.slope, unit);
  auto emitGroup = [&](size_t first, size_t count) {
    Values arguments, start;
    for (size_t at = first; at < first + count; ++at) {
      arguments.push_back(
          kernel.mulF(elements.ofOffsets[at], elements.ofQueries[at]));
      start.push_back(kernel.fma(arguments.back(), slope, products[at]));
    }
    start.push_back(lowest.intercept);
    return kernel.rolledLoop(
        kernel.fromI32(own.low), kernel.fromI32(own.high), 1, start,
        [&](Value knot, ValueRange before) -> Values {
          Value here = kernel.loadF32(own.table, {knot, layout.knots});
          Value jump = kernel.mulF(
              kernel.loadF32(own.table, {knot, layout.jumps}), unit);
          Values after;
          for (auto [argument, score] : llvm::zip(arguments, before))
            after.push_back(
                kernel.fma(thread.maxNumber(argument, here), jump, score));
          Value negative =
              arith::NegFOp::create(kernel.builder, kernel.loc, here);
          after.push_back(kernel.fma(negative, jump, before.back()));
          return after;
        });
  };
  Values scores;
  Value intercept;
  for (size_t first = 0; first < products.size(); first += knotScores) {
    Values group =
        emitGroup(first, std::min(knotScores, products.size() - first));
    intercept = group.pop_back_val();
    llvm::append_range(scores, group);
  }
  scores.push_back(intercept);
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
  Value sums[] = {sum, {}};
  for (auto [number, column] : llvm::enumerate(columns)) {
    Value query = ofQueries[tile.getNumber(0, number / 2, number % 2)];
    Value &own = sums[number % 2];
    own = own ? kernel.fma(column, query, own) : kernel.mulF(column, query);
  }
  return kernel.addF(sums[0], sums[1]);
}

void FragmentHingeProduct::addGradients(FragmentSums &sums,
                                        ValueRange cotangents,
                                        MutableArrayRef<Value> state) {
  int64_t count = sums.countDiagonals() + sums.countColumns() + 1;
  SmallVector<Type> types(count + (moments ? 2 : 0), kernel.f32);
  Values found = kernel.choose(
      isOneLine, types, [&] { return addOnLine(sums, cotangents, state); },
      [&] {
        auto addOn = [&](bool isFinite) {
          return addOnKnots(sums, cotangents, state, isFinite);
        };
        return kernel.choose(
            enterReach(), types, [&] { return addOn(true); },
            [&] { return addOn(false); });
      });
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

/// Several sums at a time, each of which waits for itself alone.
static Value add(KernelBuilder &kernel, ValueRange numbers) {
  constexpr size_t most = 4;
  Values sums(numbers.take_front(most));
  for (size_t at = most; at < numbers.size(); ++at)
    sums[at % most] = kernel.addF(sums[at % most], numbers[at]);
  Value all = sums.front();
  for (Value sum : ArrayRef(sums).drop_front())
    all = kernel.addF(all, sum);
  return all;
}

/// Sums of the cotangents times the factors of queries, along diagonals; times
/// those of offsets, of columns; what the latter are still to be multiplied
/// with; and the moments of the state.
Values FragmentHingeProduct::addOnLine(FragmentSums &sums,
                                       ValueRange cotangents,
                                       ValueRange state) {
  FragmentFactors::Elements elements = factors.load();
  Values found = sums.sumDiagonals(
      cotangents, scale(kernel, elements.ofQueries, line.slope));
  Values columns = sums.sumRows(cotangents, elements.ofOffsets);
  llvm::append_range(found, columns);
  found.push_back(line.slope);
  if (moments) {
    found.push_back(kernel.addF(state[sum], add(kernel, cotangents)));
    found.push_back(sumProducts(columns, elements.ofQueries, state[product]));
  }
  return found;
}

/// Adds what parts of the cotangents give, where the slope changes by `slope`,
/// to what others gave (empty: 0), and their moments to those of `number`.
Values FragmentHingeProduct::addParts(FragmentSums &sums,
                                      const FragmentFactors::Elements &elements,
                                      ValueRange parts, const Change &change,
                                      ValueRange before) {
  int64_t numDiagonals = sums.countDiagonals();
  Values found = sums.sumDiagonals(
      parts, scale(kernel, elements.ofQueries, change.slope),
      before.empty() ? before : before.take_front(numDiagonals));
  Values columns = sums.sumRows(parts, elements.ofOffsets);
  for (auto [at, column] : llvm::enumerate(columns))
    found.push_back(before.empty() ? kernel.mulF(column, change.slope)
                                   : kernel.fma(column, change.slope,
                                                before[numDiagonals + at]));
  if (moments) {
    Value all = moments();
    hinges.addSums(
        add(kernel, parts),
        sumProducts(columns, elements.ofQueries, kernel.constantF32(0)),
        getMoment(all, change.number, change.sum),
        getMoment(all, change.number, change.product));
  }
  return found;
}

/// What cotangents have above a knot: all, half on it, or nothing. In units of
/// twice the distance between the knot and numbers beside it all that is no
/// part of an argument is exact, and arguments further away lie beyond 0 or 1.
Values
FragmentHingeProduct::findAbove(const FragmentFactors::Elements &elements,
                                ValueRange cotangents, Value knot) {
  // Exponents as they stand in a number of 32 bits.
  constexpr int64_t exponent = 0x7f800000, one = 0x3f800000, bit = 0x00800000;
  constexpr int64_t ofMantissa = 22, most = 100;
  Value bits =
      arith::BitcastOp::create(kernel.builder, kernel.loc, kernel.i32, knot);
  Value own = arith::AndIOp::create(kernel.builder, kernel.loc, bits,
                                    thread.constant(exponent));
  constexpr int64_t twoUnits = 2 * one + ofMantissa * bit;
  Value inverse =
      thread.sub(thread.constant(twoUnits),
                 thread.max(own, thread.constant(twoUnits - one - most * bit)));
  Value units =
      arith::BitcastOp::create(kernel.builder, kernel.loc, kernel.f32, inverse);
  Value negative = arith::NegFOp::create(kernel.builder, kernel.loc, knot);
  Value half = kernel.fma(negative, units, kernel.constantF32(0.5));
  Values inUnits = scale(kernel, elements.ofQueries, units), parts;
  for (auto [offset, query, cotangent] :
       llvm::zip_equal(elements.ofOffsets, inUnits, cotangents))
    parts.push_back(
        kernel.mulF(cotangent, thread.saturatedFma(offset, query, half)));
  return parts;
}

/// All points lie in the lowest segment at least, and above a number of knots.
/// On a knot the slope is the mean of both sides, and a cotangent counts half.
/// Factors are read anew for each knot: there is no room beside the sums.
Values FragmentHingeProduct::addOnKnots(FragmentSums &sums,
                                        ValueRange cotangents, ValueRange state,
                                        bool isFinite) {
  auto load = [&] { return isFinite ? factors.load() : factors.loadFinite(); };
  Layout layout = hinges.getLayout(0);
  const FragmentHinges::Reach own = hinges.getReach();
  Index low = kernel.fromI32(own.low);
  Value lowest = kernel.loadF32(own.table, {low, layout.slopes});
  Values found =
      addParts(sums, load(), cotangents,
               {lowest, low, Layout::segmentSum, Layout::segmentProduct}, {});
  found = kernel.rolledLoop(
      low, kernel.fromI32(own.high), 1, found,
      [&](Value knot, ValueRange before) -> Values {
        Value here = kernel.loadF32(own.table, {knot, layout.knots});
        Value jump = kernel.loadF32(own.table, {knot, layout.jumps});
        FragmentFactors::Elements elements = load();
        Values parts = findAbove(elements, cotangents, here);
        return addParts(sums, elements, parts,
                        {jump, knot, Layout::knotSum, Layout::knotProduct},
                        before);
      });
  found.push_back(kernel.constantF32(1));
  if (moments)
    llvm::append_range(found, state.drop_front(sum));
  return found;
}
