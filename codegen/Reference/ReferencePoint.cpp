//===- ReferencePoint.cpp - Where a payload of the reference stands -------===//

#include "codegen/Reference/ReferencePoint.h"

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
  kernel.check(failure());
  return {};
}

void ReferencePoint::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                                  Value cotangent) {
  kernel.check(pullbackHoist(builder, hoist, cotangent, *this));
}

bool ReferencePoint::wantsGradient(pos::HoistOp hoist) {
  return llvm::any_of(plan.hoisted, [&](const Hoisted &entry) {
    return entry.op == hoist && entry.wantsGradient;
  });
}

//===----------------------------------------------------------------------===//
// Products with a table
//===----------------------------------------------------------------------===//

/// The head of the row that the op multiplies, i32.
Value ReferencePoint::getOwnHead(pos::RowDotOpInterface op) {
  return op.getSide() == pos::Side::query ? headValue
                                          : kernel.toI32(contextual.keyHead);
}

/// Indices of lane `lane` of row `index`.
SmallVector<Value> ReferencePoint::getIndices(pos::RowDotOpInterface op,
                                              Value index, Index lane) {
  if (!op.getColumns())
    return {index, kernel.toI32(lane)};
  // A table of more rows than the head dim has a part for each head.
  auto table = cast<BlockArgument>(op.getTable());
  Index rows = arguments.getSize(layout.params.at(table.getArgNumber()), 0);
  Index width = contextual.query.width;
  Index first =
      kernel.select(kernel.equal(rows, width), 0,
                    kernel.mul(kernel.fromI32(getOwnHead(op)), width));
  return {kernel.toI32(kernel.add(first, lane)), index};
}

Value ReferencePoint::getTableElement(pos::RowDotOpInterface op, Value index,
                                      Index lane) {
  return read(kernel.builder, cast<BlockArgument>(op.getTable()),
              getIndices(op, index, lane));
}

/// Lane `lane` of the row with what the op adds to it.
Value ReferencePoint::getRowElement(pos::RowDotOpInterface op, Index lane) {
  ReferenceBuilder &r = *rows;
  Value element =
      op.getSide() == pos::Side::query
          ? r.load(contextual.query, 0, lane)
          : r.loadElement(contextual.key,
                          {kernel.fromI32(batchValue), contextual.keyHead,
                           kernel.fromI32(keyRow), lane});
  if (!op.getAddend())
    return element;
  return r.add(element,
               read(kernel.builder, cast<BlockArgument>(op.getAddend()),
                    {getOwnHead(op), kernel.toI32(lane)}));
}

Value ReferencePoint::rowDot(OpBuilder &, pos::RowDotOpInterface op,
                             Value index) {
  ReferenceBuilder &r = *rows;
  noteRead(op, index);
  return r.sum(contextual.query.width, [&](Value lane) {
    return r.mul(getRowElement(op, lane), getTableElement(op, index, lane));
  });
}

void ReferencePoint::addToRowDot(OpBuilder &builder, pos::RowDotOpInterface op,
                                 Value index, Value cotangent) {
  ReferenceBuilder &r = *rows;
  auto table = cast<BlockArgument>(op.getTable());
  auto addend = cast_or_null<BlockArgument>(op.getAddend());
  kernel.loop(0, contextual.query.width, 1, [&](Value lane) {
    Value pulled = r.mul(cotangent, getTableElement(op, index, lane));
    if (op.getSide() == pos::Side::query)
      r.addTo(contextual.gradient, 0, lane, pulled);
    else
      r.addTo(contextual.keyGradients, kernel.fromI32(keyRow), lane, pulled);
    if (addend && wantsGradient(addend))
      addToRead(builder, addend, {getOwnHead(op), kernel.toI32(lane)}, pulled);
    if (wantsGradient(table))
      addToRead(builder, table, getIndices(op, index, lane),
                r.mul(cotangent, getRowElement(op, lane)));
  });
}

//===----------------------------------------------------------------------===//
// Scans
//===----------------------------------------------------------------------===//

Value ReferencePoint::scan(OpBuilder &builder, pos::ScanOp op, Value value,
                           Value limit) {
  ReferenceBuilder &r = *rows;
  Index number = plan.findScan(op), key = kernel.fromI32(keyRow);
  if (!contextual.replays) {
    Value counted =
        visible ? kernel.selectF(visible, value, r.constant(0.0)) : value;
    r.addTo(contextual.carry, number, 0, counted);
    r.store(contextual.sums, number, key, r.load(contextual.carry, number, 0));
  }
  Value sum = r.load(contextual.sums, number, key);
  return arith::MinimumFOp::create(builder, kernel.loc, sum, limit);
}

Value ReferencePoint::pullScan(OpBuilder &, pos::ScanOp op, Value limit,
                               Value cotangent) {
  ReferenceBuilder &r = *rows;
  Index number = plan.findScan(op);
  Value sum = r.load(contextual.sums, number, kernel.fromI32(keyRow));
  Value isBelow = kernel.compareF(arith::CmpFPredicate::OLT, sum, limit);
  r.addTo(contextual.carry, number, 0,
          kernel.selectF(isBelow, cotangent, r.constant(0.0)));
  Value total = r.load(contextual.carry, number, 0);
  return visible ? kernel.selectF(visible, total, r.constant(0.0)) : total;
}
