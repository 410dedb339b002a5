//===- PiecewiseLinearTile.cpp - Piecewise-linear functions of a tile -----===//

#include "codegen/Tiles/PiecewiseLinearTile.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpFPredicate;

PiecewiseLinearTile::PiecewiseLinearTile(KernelBuilder &kernel,
                                         ArgumentBlock &arguments,
                                         const KernelPlan &plan,
                                         const SiteOperands &operands,
                                         Value memory, int64_t rows,
                                         int64_t vectors, bool hasGradients)
    : kernel(kernel), arguments(arguments), plan(plan), operands(operands),
      rows(rows), vectors(vectors), hasGradients(hasGradients),
      memory(kernel, plan, memory, rows * vectors * kernel.width()),
      isPulled(plan.hingeSums.size()), reaches(plan.hingeSums.size()),
      tables(plan.hingeSums.size()) {}

int64_t PiecewiseLinearTile::countWords(const KernelPlan &plan,
                                        int64_t elements) {
  return plan.hingeSums.size() *
         PiecewiseLinearMemory::countFunctionWords(plan, elements);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

unsigned PiecewiseLinearTile::find(pos::HingeSumOp op) const {
  return llvm::find(plan.hingeSums, op) - plan.hingeSums.begin();
}

PiecewiseLinearLayout PiecewiseLinearTile::getLayout(unsigned number) const {
  return PiecewiseLinearLayout(
      plan.hinges[plan.findHinges(plan.hingeSums[number])].op, kernel.width());
}

Value PiecewiseLinearTile::getTable(unsigned number, Index batch, Index head) {
  unsigned table = operands.hinges[plan.findHinges(plan.hingeSums[number])];
  return arguments.getAddress(table, {batch, head});
}

PiecewiseLinearTile::Values
PiecewiseLinearTile::forEachVector(ValueRange initial,
                                   KernelBuilder::LoopBody body) {
  int64_t panel = vectors * kernel.width();
  return kernel.loop(0, kernel.mul(rowCount, panel), panel, initial,
                     [&](Value row, ValueRange carried) -> Values {
                       Values now(carried);
                       for (int64_t v = 0; v < vectors; ++v) {
                         Index place = kernel.add(row, v * kernel.width());
                         now = body(kernel.value(place), now);
                       }
                       return now;
                     });
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Gives `b` where one is NaN.
static Value pick(KernelBuilder &kernel, CmpFPredicate predicate, Value a,
                  Value b) {
  return kernel.selectF(kernel.compareF(predicate, a, b), a, b);
}

static Value reduce(KernelBuilder &kernel, Value vector,
                    CmpFPredicate predicate) {
  int64_t width = kernel.width();
  for (int64_t half = width / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> mask(width);
    for (int64_t lane = 0; lane < width; ++lane)
      mask[lane] = (lane + half) % width;
    vector =
        pick(kernel, predicate, kernel.shuffle(vector, vector, mask), vector);
  }
  return vector;
}

PiecewiseLinearTile::Values PiecewiseLinearTile::fillArguments(unsigned number,
                                                               TilePoint &point,
                                                               MoveTo moveTo) {
  pos::HingeSumOp op = plan.hingeSums[number];
  constexpr double infinity = std::numeric_limits<double>::infinity();
  int64_t panel = vectors * kernel.width();
  Index head = point.getPlace().second;
  Values range = kernel.loop(
      0, rowCount, 1, {kernel.splatF32(infinity), kernel.splatF32(-infinity)},
      [&](Value row, ValueRange carried) -> Values {
        Value least = carried[0], most = carried[1];
        for (int64_t v = 0; v < vectors; ++v) {
          moveTo(row, v);
          Value x = kernel.broadcast(
              callSlice(kernel, *op->getBlock(), op.getValue(), point));
          least = pick(kernel, CmpFPredicate::OLT, x, least);
          most = pick(kernel, CmpFPredicate::OGT, x, most);
          kernel.storeVector(x, memory.at(number, head, argument,
                                          kernel.add(kernel.mul(row, panel),
                                                     v * kernel.width())));
        }
        return {least, most};
      });
  return {reduce(kernel, range[0], CmpFPredicate::OLT),
          reduce(kernel, range[1], CmpFPredicate::OGT)};
}

/// How many knots compare so with a number that is in all lanes, an i64.
Value PiecewiseLinearTile::countKnots(Value table,
                                      const PiecewiseLinearLayout &layout,
                                      CmpFPredicate predicate, Value place) {
  OpBuilder &builder = kernel.builder;
  int64_t width = kernel.width();
  Type bits = builder.getIntegerType(width);
  auto count = [&](Value first, ValueRange sofar) -> Values {
    Value knots = kernel.loadVector(table, {first, layout.knots});
    Value holds = LLVM::BitcastOp::create(
        builder, kernel.loc, bits, kernel.compareF(predicate, knots, place));
    Value ones = LLVM::CtPopOp::create(builder, kernel.loc, bits, holds);
    ones = arith::ExtUIOp::create(builder, kernel.loc, kernel.i64, ones);
    return {kernel.value(kernel.add(sofar[0], ones))};
  };
  Values total{kernel.constantI64(0)};
  int64_t end = layout.jumps; // knots are padded
  constexpr int64_t mostUnrolled = 4;
  if (end > mostUnrolled * width)
    return kernel.loop(0, end, width, total, count)[0];
  for (int64_t first = 0; first < end; first += width)
    total = count(kernel.constantI64(first), total);
  return total[0];
}

SegmentRange PiecewiseLinearTile::findReach(unsigned number, Value table,
                                            ValueRange range) {
  PiecewiseLinearLayout layout = getLayout(number);
  Index low = countKnots(table, layout, CmpFPredicate::OLT, range.front());
  // Padding is above no finite number. Where all are NaN, any segment will do.
  Index high =
      kernel.min(countKnots(table, layout, CmpFPredicate::OLE, range.back()),
                 layout.units);
  low = kernel.min(low, layout.units);
  high = kernel.max(high, low);
  return {kernel.value(low), kernel.value(high), kernel.equal(low, high)};
}

void PiecewiseLinearTile::fillHead(unsigned number, TilePoint &point,
                                   MoveTo moveTo) {
  Values range = fillArguments(number, point, moveTo);
  auto [batch, head] = point.getPlace();
  tables[number] = getTable(number, batch, head);
  reaches[number] = findReach(number, tables[number], range);
  emitValues({number, head, tables[number], reaches[number]});
}

void PiecewiseLinearTile::fillAllHeads(unsigned number, TilePoint &point,
                                       MoveTo moveTo) {
  Index batch = point.getPlace().first;
  auto [sharesArgument, sharesKnots] = memory.getShared(number);
  bool sharesReach = sharesArgument && sharesKnots;
  Values range;
  SegmentRange reach;
  if (sharesArgument) {
    point.enterHead(batch, Index(0));
    range = fillArguments(number, point, moveTo);
  }
  if (sharesReach)
    reach = findReach(number, getTable(number, batch, 0), range);
  kernel.loop(0, plan.scoreHeads, 1, [&](Value head) {
    point.enterHead(batch, head);
    if (!sharesArgument)
      range = fillArguments(number, point, moveTo);
    Value table = getTable(number, batch, head);
    SegmentRange own = sharesReach ? reach : findReach(number, table, range);
    memory.storeReach(number, head, own);
    emitValues({number, head, table, own});
  });
  point.enterHead(batch, Index(0));
}

void PiecewiseLinearTile::fill(TilePoint &point, MoveTo moveTo, Index count) {
  rowCount = count;
  for (unsigned number = 0; number < plan.hingeSums.size(); ++number)
    plan.scoreHeads ? fillAllHeads(number, point, moveTo)
                    : fillHead(number, point, moveTo);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void PiecewiseLinearTile::emitValues(const Place &place) {
  kernel.when(
      place.reach.isOne, [&] { emitLine(place); },
      [&] { emitSegments(place); });
}

void PiecewiseLinearTile::emitLine(const Place &of) {
  const auto &[number, head, table, reach] = of;
  PiecewiseLinearLayout layout = getLayout(number);
  Index low = reach.low;
  Value slopes = kernel.loadBroadcast(table, {low, layout.slopes});
  Value intercepts = kernel.loadBroadcast(table, {low, layout.intercepts});
  forEachVector({}, [&](Value place, ValueRange) -> Values {
    Value x = kernel.loadVector(memory.at(number, head, argument, place));
    kernel.storeVector(kernel.fma(x, slopes, intercepts),
                       memory.at(number, head, result, place));
    if (hasGradients)
      kernel.storeVector(slopes, memory.at(number, head, slope, place));
    return {};
  });
}

void PiecewiseLinearTile::emitSegments(const Place &of) {
  const auto &[number, head, table, reach] = of;
  PiecewiseLinearLayout layout = getLayout(number);
  Index low = reach.low, high = reach.high;
  Value slopes = kernel.loadBroadcast(table, {low, layout.slopes});
  Value intercepts = kernel.loadBroadcast(table, {low, layout.intercepts});
  Value half = kernel.splatF32(0.5), zero = kernel.splatF32(0.0);
  forEachVector({}, [&](Value place, ValueRange) -> Values {
    Value x = kernel.loadVector(memory.at(number, head, argument, place));
    Values initial{slopes, intercepts};
    if (hasGradients) // on a knot, the mean of both sides
      initial.push_back(slopes);
    Values line = kernel.loop(
        low, high, 1, initial, [&](Value knot, ValueRange now) -> Values {
          Value here = kernel.loadBroadcast(table, {knot, layout.knots});
          Value isAbove = kernel.compareF(CmpFPredicate::OGT, x, here);
          auto choose = [&](int64_t values, Value before) {
            Value after = kernel.loadBroadcast(table, {knot, values + 1});
            return kernel.selectF(isAbove, after, before);
          };
          Values next{choose(layout.slopes, now[0]),
                      choose(layout.intercepts, now[1])};
          if (hasGradients) {
            Value jump = kernel.loadBroadcast(table, {knot, layout.jumps});
            Value isOn = kernel.compareF(CmpFPredicate::OEQ, x, here);
            Value change = kernel.selectF(
                isAbove, jump,
                kernel.selectF(isOn, kernel.mulF(jump, half), zero));
            next.push_back(kernel.addF(now[2], change));
          }
          return next;
        });
    kernel.storeVector(kernel.fma(x, line[0], line[1]),
                       memory.at(number, head, result, place));
    if (hasGradients)
      kernel.storeVector(line[2], memory.at(number, head, slope, place));
    return {};
  });
}

Value PiecewiseLinearTile::load(pos::HingeSumOp op, Index head,
                                Index place) const {
  return kernel.loadVector(memory.at(find(op), head, result, place));
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

Value PiecewiseLinearTile::pull(pos::HingeSumOp op, Index head, Index place,
                                Value ct) {
  unsigned number = find(op);
  isPulled[number] = true;
  ct = kernel.broadcast(ct);
  if (plan.hinges[plan.findHinges(op)].wantsGradient)
    kernel.storeVector(ct, memory.at(number, head, cotangent, place));
  return kernel.mulF(ct,
                     kernel.loadVector(memory.at(number, head, slope, place)));
}

/// Adds up what `select` leaves of the cotangents, and its products with the
/// arguments, to two moments, in f64. A point without a cotangent (a hidden
/// key) may have any argument.
void PiecewiseLinearTile::addPoints(
    const Place &of, Value sum, Value product,
    function_ref<Value(Value x, Value ct)> select) {
  Value zero = kernel.splatF32(0.0);
  auto addVector = [&](Value place, ValueRange now) -> Values {
    Value x = kernel.loadVector(memory.at(of.number, of.head, argument, place));
    Value ct = select(
        x, kernel.loadVector(memory.at(of.number, of.head, cotangent, place)));
    Value isSeen = kernel.compareF(CmpFPredicate::UNE, ct, zero);
    return {kernel.addF(now[0], ct),
            kernel.fma(ct, kernel.selectF(isSeen, x, zero), now[1])};
  };
  Values sums = forEachVector({zero, zero}, addVector);
  kernel.addToF64(sum, kernel.sumLanes(sums[0]));
  kernel.addToF64(product, kernel.sumLanes(sums[1]));
}

void PiecewiseLinearTile::addMoments(const Place &of, Value moments) {
  PiecewiseLinearLayout layout = getLayout(of.number);
  auto at = [&](Index segment, PiecewiseLinearLayout::Moment moment) {
    Index place = kernel.add(segment, layout.getMoment(moment));
    return kernel.advance(moments, {place}, kernel.f64);
  };
  // All points lie in the lowest segment at least.
  addPoints(of, at(of.reach.low, PiecewiseLinearLayout::segmentSum),
            at(of.reach.low, PiecewiseLinearLayout::segmentProduct),
            [](Value, Value ct) { return ct; });
  // Knots inside the range of the tile: some points lie above, some do not.
  Value zero = kernel.splatF32(0.0), half = kernel.splatF32(0.5);
  kernel.loop(of.reach.low, of.reach.high, 1, [&](Value knot) {
    Value here = kernel.loadBroadcast(of.table, {knot, layout.knots});
    auto getPart = [&](Value x, Value ct) {
      Value isAbove = kernel.compareF(CmpFPredicate::OGT, x, here);
      Value isOn = kernel.compareF(CmpFPredicate::OEQ, x, here);
      return kernel.selectF(isAbove, ct,
                            kernel.selectF(isOn, kernel.mulF(ct, half), zero));
    };
    addPoints(of, at(knot, PiecewiseLinearLayout::knotSum),
              at(knot, PiecewiseLinearLayout::knotProduct), getPart);
  });
}

void PiecewiseLinearTile::addMoments(Index batch, Index head,
                                     ArrayRef<Value> moments) {
  for (unsigned number = 0; number < plan.hingeSums.size(); ++number) {
    Value to = moments[plan.findHinges(plan.hingeSums[number])];
    if (!to || !isPulled[number])
      continue;
    Place place{number, head, tables[number], reaches[number]};
    if (plan.scoreHeads) {
      place.table = getTable(number, batch, head);
      place.reach = memory.loadReach(number, head);
    }
    addMoments(place, to);
  }
}
