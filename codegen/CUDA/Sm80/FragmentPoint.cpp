//===- FragmentPoint.cpp - Where payloads see an element of a fragment ----===//

#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

FragmentPoint::FragmentPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                             const ForwardOperands &launch)
    : TilePoint(thread.kernel, arguments, launch.plan, launch.sites,
                pos::RowOperand::query),
      row(thread.add(thread.mul(thread.warp, launch.tile.countWarpQueries()),
                     thread.div(thread.lane, 4))),
      column(thread.mul(thread.rem(thread.lane, 4), 2)), thread(thread),
      launch(launch), windows(thread, arguments, launch, row, column),
      queryLength(kernel.toI32(arguments.getSize(launch.sites.query, 2))),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      shift(kernel.toI32(launch.sites.getQueryShift(kernel, arguments))) {
  if (!plan.hasPositions)
    return;
  pos::SitesOwnerInterface owner = plan.owner;
  llvm::SmallSetVector<int64_t, 4> found;
  owner.getSitesRegion().walk([&](Operation *op) {
    if (auto coord = dyn_cast<pos::CoordOp>(op))
      found.insert(coord.getAxis());
    if (auto offset = dyn_cast<pos::OffsetOp>(op))
      found.insert(offset.getAxis());
  });
  if (operands.offsetRange)
    found.insert(code);
  axes = found.takeVector();
}

void FragmentPoint::enterQueries(Index batch, Index head, Value first) {
  enterHead(batch, head);
  firstQuery = thread.add(first, row);
  windows.enterQueries(batch, head, first);
  loadOfRows(pos::Side::query);
  loadQueryVectors();
}

void FragmentPoint::enterTile(Value first, Value stage) {
  firstKey = thread.add(first, column);
  windows.enterTile(stage);
  loadOfRows(pos::Side::key);
}

/// Before payloads ask, wherever they do.
void FragmentPoint::loadOfRows(pos::Side side) {
  bool isKey = side == pos::Side::key;
  auto &known = isKey ? ofKeyRows : ofQueryRows;
  known.clear();
  int64_t count = isKey ? launch.tile.keys / 4 : launch.tile.countThreadRows();
  for (int64_t axis : axes)
    for (int64_t number = 0; number < count; ++number) {
      auto own = isKey ? FragmentElement::get(0, number / 2, number % 2)
                       : FragmentElement::get(number / 2, 0, 2 * (number % 2));
      int64_t step = isKey ? own.column : own.row;
      known[{axis, step}] = loadOfRow(side, axis, step);
    }
}

/// Rows past the end repeat the last one: no offset lies outside of those in
/// use.
Value FragmentPoint::loadOfRow(pos::Side side, int64_t axis, int64_t step) {
  bool isKey = side == pos::Side::key;
  Value own = isKey ? thread.add(firstKey, step) : getQuery(step);
  Value last = thread.add(isKey ? keyLength : queryLength, -1);
  Index row = kernel.fromI32(thread.min(own, last));
  return axis == code ? kernel.load(kernel.i32, tables.getCode(side, row))
                      : headPlace.getCoord(side, row, axis);
}

Value FragmentPoint::getOfRow(pos::Side side, int64_t axis) {
  bool isKey = side == pos::Side::key;
  Value known = (isKey ? ofKeyRows : ofQueryRows)
                    .lookup({axis, isKey ? element.column : element.row});
  assert(known && "rows are loaded before payloads ask for them");
  return known;
}

Value FragmentPoint::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  return plan.hasPositions ? getOfRow(side, axis) : index(builder, side);
}

/// Those of rows past the end are that of the last row.
void FragmentPoint::loadQueryVectors() {
  ofQueries.clear();
  for (const Hoisted &hoisted : plan.hoisted) {
    if (hoisted.form != HoistForm::QueryVector || hoisted.isEmittedInPlace ||
        !isUsedByScores(plan, hoisted))
      continue;
    for (int64_t number = 0; number < launch.tile.countThreadRows(); ++number) {
      int64_t step = FragmentElement::get(number / 2, 0, 2 * (number % 2)).row;
      element = {step, 0};
      ofQueries[{&hoisted, step}] =
          TilePoint::hoisted(kernel.builder, hoisted.op);
    }
  }
}

//===----------------------------------------------------------------------===//
// Where the element is
//===----------------------------------------------------------------------===//

Value FragmentPoint::getQuery(int64_t rowStep) {
  return thread.add(firstQuery, rowStep);
}

Value FragmentPoint::isQuery(int64_t rowStep) {
  return thread.less(getQuery(rowStep), queryLength);
}

Value FragmentPoint::isKey(int64_t columnStep) {
  return thread.less(thread.add(firstKey, columnStep), keyLength);
}

Value FragmentPoint::tensorRow(OpBuilder &, pos::Side side) {
  return side == pos::Side::key ? thread.add(firstKey, element.column)
                                : getQuery(element.row);
}

Value FragmentPoint::index(OpBuilder &builder, pos::Side side) {
  Value own = tensorRow(builder, side);
  return side == pos::Side::key ? own : thread.add(own, shift);
}

//===----------------------------------------------------------------------===//
// Hoisted values
//===----------------------------------------------------------------------===//

Value FragmentPoint::hoisted(OpBuilder &builder, pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op, operand);
  assert(hoisted && "a point uses a value that the plan does not know");
  if (Value known = ofQueries.lookup({hoisted, element.row}))
    return known;
  if (Value inWindow = windows.load(*hoisted, element.row, element.column))
    return inWindow;
  return TilePoint::hoisted(builder, op);
}

void FragmentPoint::setHingeValues(pos::HingeSumOp op,
                                   ArrayRef<FragmentElement> elements,
                                   ValueRange values) {
  for (auto [place, value] : llvm::zip_equal(elements, values))
    hingeValues[{op, place.row, place.column}] = value;
}

Value FragmentPoint::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  Value value = hingeValues.lookup({op, element.row, element.column});
  assert(value && "functions are evaluated before the payloads that use them");
  return value;
}

/// What is in no window: conditions, and values over queries before the tiles.
Value FragmentPoint::loadHoisted(const Hoisted &hoisted, unsigned,
                                 Value start) {
  Type type = tables.getStoredType(hoisted);
  Value last;
  Index entry = 0;
  switch (hoisted.form) {
  case HoistForm::QueryVector:
    last = thread.add(queryLength, -1);
    entry = kernel.fromI32(thread.min(getQuery(element.row), last));
    break;
  case HoistForm::KeyVector:
    last = thread.add(keyLength, -1);
    entry =
        kernel.fromI32(thread.min(thread.add(firstKey, element.column), last));
    break;
  case HoistForm::OffsetTable: {
    if (operands.offsetRange) {
      entry = kernel.fromI32(thread.sub(getOfRow(pos::Side::key, code),
                                        getOfRow(pos::Side::query, code)));
      break;
    }
    Value offset =
        thread.sub(thread.add(firstKey, element.column), getQuery(element.row));
    entry = kernel.add(kernel.fromI32(thread.add(offset, queryLength)),
                       launch.sites.padding - 1);
    break;
  }
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    llvm_unreachable("a score payload uses no value of this form");
  }
  return tables.load(hoisted, kernel.advance(start, {entry}, type),
                     std::nullopt);
}
