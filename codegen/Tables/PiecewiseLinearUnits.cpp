//===- PiecewiseLinearUnits.cpp - Units of a piecewise-linear function ----===//

#include "codegen/Tables/PiecewiseLinearUnits.h"
#include "codegen/Tables/PayloadCall.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

void PiecewiseLinearUnits::emitUnit(Index unit, ValueRange coefficients) {
  using arith::CmpFPredicate;
  Value w = coefficients[2], a = coefficients[3], b = coefficients[4];
  Value zero = constant(0.0), half = constant(0.5), one = constant(1.0);
  auto is = [&](CmpFPredicate predicate, Value value) {
    return k.compareF(predicate, value, zero);
  };
  // Knots are what arguments are compared with: f32.
  Value negated = arith::NegFOp::create(k.builder, k.loc, b);
  Value exact = arith::DivFOp::create(k.builder, k.loc, negated, a);
  Value rounded = k.narrow(exact);
  Value place = k.widen(rounded);
  Value hasKnot = k.both(is(CmpFPredicate::ONE, a),
                         k.compareF(CmpFPredicate::ORD, place, place));
  Value active = k.selectF(is(CmpFPredicate::OEQ, b), half, one);
  active = k.selectF(is(CmpFPredicate::OLT, b), zero, active);
  Value rises = is(CmpFPredicate::OGT, a);
  auto store = [&](Column column, Value value) {
    k.store(value, getAddress(column, unit));
  };
  store(weight, w);
  store(slope, a);
  store(offset, b);
  store(above, k.selectF(hasKnot, k.selectF(rises, one, zero), active));
  store(below, k.selectF(hasKnot, k.selectF(rises, zero, one), active));
  store(knot, k.selectF(hasKnot, place,
                        constant(std::numeric_limits<double>::infinity())));
}

/// The number of knots before that of a unit; equal ones are in the order of
/// their units.
void PiecewiseLinearUnits::emitRank(Index unit) {
  using arith::CmpFPredicate;
  Value own = get(knot, unit);
  Value found = k.loop(
      0, count, 1, k.constantI64(0),
      [&](Value other, ValueRange carried) -> Values {
        Value place = get(knot, other);
        Value isEqual = k.both(k.compareF(CmpFPredicate::OEQ, place, own),
                               k.less(other, unit));
        Value isBefore =
            k.either(k.compareF(CmpFPredicate::OLT, place, own), isEqual);
        return {k.value(k.add(carried[0], k.select(isBefore, 1, 0)))};
      })[0];
  k.store(found, getAddress(rank, unit));
}

Values PiecewiseLinearUnits::emit(HeadPoint &point) {
  Values sums = k.loop(0, count, 1, {constant(0.0), constant(0.0)},
                       [&](Value unit, ValueRange carried) -> Values {
                         Values coefficients = callPayload(
                             k, op.getBody().front(), k.toI32(unit), point);
                         emitUnit(unit, coefficients);
                         return {add(carried[0], coefficients[0]),
                                 add(carried[1], coefficients[1])};
                       });
  k.loop(0, count, 1, [&](Value unit) { emitRank(unit); });
  return sums;
}
