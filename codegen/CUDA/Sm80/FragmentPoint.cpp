//===- FragmentPoint.cpp - Where payloads see an element of a fragment ----===//

#include "codegen/CUDA/Sm80/FragmentPoint.h"

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
      shift(kernel.toI32(launch.sites.getQueryShift(kernel, arguments))) {}

void FragmentPoint::enterQueries(Index batch, Index head, Value first) {
  enterHead(batch, head);
  firstQuery = thread.add(first, row);
  windows.enterQueries(batch, head, first);
  loadQueryVectors();
}

void FragmentPoint::enterTile(Value first, Value stage) {
  firstKey = thread.add(first, column);
  windows.enterTile(stage);
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
