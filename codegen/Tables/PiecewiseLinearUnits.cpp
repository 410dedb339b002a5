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

/// The number of knots before that of each of a vector of units; equal ones are
/// in the order of their units.
void PiecewiseLinearUnits::emitRanks(Index first) {
  using arith::CmpFPredicate;
  Index lanes = k.min(k.width(), k.sub(count, first));
  Value own = k.loadPart(k.vf64, getAddress(knot, first), lanes);
  Value units = k.lanes(first), one = k.splatI32(1), none = k.splatI32(0);
  auto add = [&](Value other, ValueRange carried) -> Values {
    Value place = k.broadcast(get(knot, other));
    Value isEarlier =
        arith::CmpIOp::create(k.builder, k.loc, arith::CmpIPredicate::slt,
                              k.broadcast(k.toI32(other)), units);
    Value isEqual =
        k.both(k.compareF(CmpFPredicate::OEQ, place, own), isEarlier);
    Value isBefore =
        k.either(k.compareF(CmpFPredicate::OLT, place, own), isEqual);
    return {arith::AddIOp::create(k.builder, k.loc, carried[0],
                                  k.selectF(isBefore, one, none))};
  };
  Value found = k.loop(0, count, 1, none, add)[0];
  Value wide =
      arith::ExtSIOp::create(k.builder, k.loc, k.vi32.clone(k.i64), found);
  k.storePart(wide, getAddress(rank, first), lanes);
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
  k.loop(0, count, k.width(), [&](Value first) { emitRanks(first); });
  return sums;
}
