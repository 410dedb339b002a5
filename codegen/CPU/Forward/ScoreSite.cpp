//===- ScoreSite.cpp - Where the forward emits score payloads -------------===//

#include "codegen/CPU/Forward/ScoreSite.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void ScoreSite::packPositions(Index firstRow, Index count, int64_t rowCapacity,
                              Value memory) {
  packed = memory;
  capacity = rowCapacity;
  if (!operands.queryPositions)
    return;
  unsigned tensor = *operands.queryPositions;
  Index last = kernel.sub(arguments.getSize(tensor, 1), 1);
  Index axes = kernel.min(arguments.getSize(tensor, 2), packedAxes);
  kernel.loop(0, count, 1, [&](Value row) {
    Value from =
        getPositions(tensor, kernel.min(kernel.add(firstRow, row), last));
    kernel.loop(0, axes, 1, [&](Value axis) {
      Index step = kernel.mul(axis, arguments.getStride(tensor, 2));
      Value position =
          kernel.load(kernel.i32, kernel.advance(from, {step}, kernel.i32));
      kernel.store(position,
                   kernel.advance(memory, {kernel.mul(axis, capacity), row},
                                  kernel.i32));
    });
  });
}

void ScoreSite::enterPanel(Index firstRow, Index placeInItem) {
  first = firstRow;
  place = placeInItem;
}

void ScoreSite::setPoint(Index vectorNumber, Index keyRow, Index rowInTile) {
  vector = vectorNumber;
  key = keyRow;
  row = rowInTile;
}

Index ScoreSite::getCellPlace() {
  return kernel.mul(kernel.add(kernel.mul(row, vectors), vector),
                    kernel.width());
}

Index ScoreSite::getKey() {
  return kernel.min(key, kernel.sub(arguments.getSize(operands.key, 2), 1));
}

Value ScoreSite::index(OpBuilder &, pos::Side side) {
  if (side == pos::Side::key)
    return kernel.toI32(key);
  return kernel.lanes(toIndex(pos::Side::query, getFirst()));
}

Value ScoreSite::tensorRow(OpBuilder &builder, pos::Side side) {
  return side == pos::Side::key ? index(builder, side)
                                : kernel.lanes(getFirst());
}

/// Under given positions of one side, rows of the other side past its end
/// repeat the last one as well: no offset lies outside of those in use.
Value ScoreSite::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  if (!plan.hasPositions)
    return index(builder, side);
  if (side == pos::Side::key) {
    if (!operands.keyPositions)
      return kernel.toI32(getKey());
    unsigned tensor = *operands.keyPositions;
    Index step = kernel.mul(axis, arguments.getStride(tensor, 2));
    return kernel.load(
        kernel.i32,
        kernel.advance(getPositions(tensor, getKey()), {step}, kernel.i32));
  }
  if (!operands.queryPositions) {
    Index last = kernel.sub(arguments.getSize(operands.query, 2), 1);
    return arith::MinSIOp::create(
        kernel.builder, kernel.loc, index(builder, side),
        kernel.broadcast(kernel.toI32(toIndex(pos::Side::query, last))));
  }
  assert(axis < packedAxes && "checked when the kernel was planned");
  return kernel.load(kernel.vi32,
                     kernel.advance(packed,
                                    {place, kernel.mul(vector, kernel.width()),
                                     axis * capacity},
                                    kernel.i32));
}

Value ScoreSite::getLaneCodes() {
  return kernel.load(kernel.vi32, getCode(pos::Side::query, getFirst()));
}

Value ScoreSite::getRowCode() {
  return kernel.load(kernel.i32, getCode(pos::Side::key, key));
}

Value ScoreSite::loadHoisted(const Hoisted &hoisted, unsigned, Value start) {
  Type type = getStoredType(hoisted);
  switch (hoisted.form) {
  case HoistForm::OffsetTable: {
    if (operands.offsetRange)
      return loadAtOffsets(hoisted, start);
    // Descending: entry padding + (Lk - 1 - key) + query.
    Index entry = kernel.sub(arguments.getSize(operands.key, 2), key);
    entry = kernel.add(entry, getFirst());
    return loadEntry(hoisted,
                     kernel.advance(start, {entry, operands.padding - 1}, type),
                     kernel.width());
  }
  case HoistForm::QueryVector: {
    Index left = kernel.sub(arguments.getSize(operands.query, 2), getFirst());
    Index count = kernel.min(left, kernel.width());
    return loadEntry(hoisted, kernel.advance(start, {getFirst()}, type), count);
  }
  case HoistForm::KeyVector:
    return loadEntry(hoisted, kernel.advance(start, {getKey()}, type),
                     std::nullopt);
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    break;
  }
  llvm_unreachable("a score payload uses no value of this form");
}
