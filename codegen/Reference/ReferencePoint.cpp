//===- ReferencePoint.cpp - Where a payload of the reference stands -------===//

#include "codegen/Reference/Reference.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Side;

FloatType codegen::getReferenceType(Value operand) {
  Type element = cast<RankedTensorType>(operand.getType()).getElementType();
  return element.isF64() ? cast<FloatType>(element)
                         : Float32Type::get(operand.getContext());
}

void ReferencePoint::moveToPair(Index batch, Index head, Index query,
                                Index key) {
  setBatch(kernel.toI32(batch));
  setHead(kernel.toI32(head));
  queryRow = kernel.toI32(query);
  keyRow = kernel.toI32(key);
  selfRow = laneValue = {};
}

void ReferencePoint::moveToRow(pos::RowOperand operand, Index batch, Index head,
                               Index row) {
  setBatch(kernel.toI32(batch));
  setHead(kernel.toI32(head));
  queryRow = keyRow = laneValue = {};
  selfRow = kernel.toI32(row);
  selfSide =
      operand == pos::RowOperand::key || operand == pos::RowOperand::value
          ? Side::key
          : Side::query;
  (selfSide == Side::key ? keyRow : queryRow) = selfRow;
}

void ReferencePoint::setLane(Index lane) { laneValue = kernel.toI32(lane); }

Value ReferencePoint::getRow(Side side) {
  if (side == Side::self)
    return selfRow;
  return side == Side::query ? queryRow : keyRow;
}

Value ReferencePoint::index(OpBuilder &, Side side) {
  Value row = getRow(side);
  if (!row)
    return {};
  Side of = side == Side::self ? selfSide : side;
  return of == Side::query ? getQueryIndex(row) : row;
}

Value ReferencePoint::coord(OpBuilder &builder, Side side, int64_t axis) {
  Value row = getRow(side);
  if (!row)
    return {};
  Value given = getPosition(side == Side::self ? selfSide : side, axis, row);
  return given ? given : index(builder, side);
}

Value ReferencePoint::offset(OpBuilder &builder, int64_t axis) {
  Value query = coord(builder, Side::query, axis);
  Value key = coord(builder, Side::key, axis);
  if (!query || !key)
    return {};
  return subI(key, query);
}

Value ReferencePoint::hoisted(OpBuilder &builder, pos::HoistOp hoist) {
  FailureOr<Value> value = emitHoist(builder, hoist, *this);
  if (succeeded(value))
    return *value;
  failed = true;
  return {};
}

void ReferencePoint::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                                  Value cotangent) {
  failed |= mlir::failed(pullbackHoist(builder, hoist, cotangent, *this));
}

bool ReferencePoint::wantsGradient(pos::HoistOp hoist) {
  return llvm::any_of(plan.hoisted, [&](const Hoisted &entry) {
    return entry.op == hoist && entry.wantsGradient;
  });
}
