//===- TablePoint.cpp - Where a payload stands in a table -----------------===//

#include "codegen/TablePoint.h"
#include "codegen/OffsetRange.h"
#include "codegen/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;
using pos::Side;

void TablePoint::moveTo(Index toBatch, Index toHead, Index toRow, Index toFirst,
                        Index toCount) {
  batch = toBatch;
  headIndex = toHead;
  row = toRow;
  first = toFirst;
  count = toCount;
  setBatch(kernel.toI32(batch));
  setHead(kernel.toI32(headIndex));
  if (isScalar())
    return;
  Value last =
      kernel.broadcast(kernel.toI32(kernel.sub(kernel.add(first, count), 1)));
  column = arith::MinSIOp::create(kernel.builder, kernel.loc,
                                  kernel.lanes(first), last);
}

Index TablePoint::getRowCount() {
  bool isQuery =
      entry.form == HoistForm::QueryVector ||
      (entry.form == HoistForm::RowLaneTable &&
       entry.operand != RowOperand::key && entry.operand != RowOperand::value);
  return getExtent(isQuery ? pos::Extent::query : pos::Extent::key);
}

Value TablePoint::getRow() {
  return entry.form == HoistForm::RowLaneTable ? kernel.toI32(row) : column;
}

/// The side whose rows a `self` of an operand means.
static Side getSide(RowOperand operand) {
  return operand == RowOperand::key || operand == RowOperand::value
             ? Side::key
             : Side::query;
}

Value TablePoint::index(OpBuilder &, Side side) {
  if (entry.form == HoistForm::QueryVector && side == Side::query)
    return getQueryIndex(getRow());
  if (entry.form == HoistForm::KeyVector && side == Side::key)
    return getRow();
  // Row maps ask for the row itself, appended columns by its side.
  if (entry.form == HoistForm::RowLaneTable &&
      (side == Side::self || side == getSide(entry.operand)))
    return getSide(entry.operand) == Side::key ? getRow()
                                               : getQueryIndex(getRow());
  return {};
}

Value TablePoint::coord(OpBuilder &builder, Side side, int64_t axis) {
  Value place = index(builder, side);
  if (!place)
    return {};
  Side of = side == Side::self ? getSide(entry.operand) : side;
  Value given = getPosition(of, axis, getRow());
  return given ? given : place;
}

Value TablePoint::offset(OpBuilder &builder, int64_t axis) {
  if (entry.form != HoistForm::OffsetTable || axis != 0)
    return {};
  Location loc = kernel.loc;
  Value low, high, value;
  if (layout.range) {
    low = loadOffsetRange(kernel, arguments, *layout.range, 0);
    high = loadOffsetRange(kernel, arguments, *layout.range, 1);
    value = addI(column, low);
  } else {
    Value queries = kernel.toI32(getExtent(pos::Extent::query));
    Value keys = kernel.toI32(getExtent(pos::Extent::key));
    Value one = kernel.constantI32(1);
    low = subI(one, keys);
    high = subI(queries, one);
    Value step = subI(column, kernel.constantI32(options.padding));
    value = options.order == OffsetOrder::Ascending ? addI(step, low)
                                                    : subI(high, step);
  }
  value = arith::MaxSIOp::create(builder, loc, value, kernel.broadcast(low));
  return arith::MinSIOp::create(builder, loc, value, kernel.broadcast(high));
}

Value TablePoint::getAddress(unsigned tensor, bool isScalarBuffer) {
  SmallVector<Index> indices{entry.perBatch ? batch : Index(0),
                             hasHead() ? headIndex : Index(0)};
  // An earlier hoist may vary with less than this one.
  for (unsigned dim : {0u, 1u})
    indices[dim] = kernel.rem(indices[dim], arguments.getSize(tensor, dim));
  if (!isScalarBuffer) {
    if (entry.form == HoistForm::RowLaneTable)
      indices.push_back(row);
    indices.push_back(first);
  }
  return arguments.getAddress(tensor, indices);
}

Value TablePoint::hoisted(OpBuilder &builder, pos::HoistOp hoist) {
  auto found = layout.buffers.find(hoist);
  if (found == layout.buffers.end()) {
    FailureOr<Value> value = emitHoist(builder, hoist, *this);
    return succeeded(value) ? *value : Value();
  }
  Value address = getAddress(found->second, /*isScalarBuffer=*/false);
  Type stored = arguments.getElementType(found->second);
  Value value =
      kernel.loadPart(VectorType::get(kernel.width(), stored), address, count);
  if (stored.isInteger(8))
    return arith::TruncIOp::create(builder, kernel.loc, kernel.vi1, value);
  return convert(value, computeType);
}

void TablePoint::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                              Value cotangent) {
  unsigned tensor = layout.gradients.at(hoist);
  const Hoisted *target = plan.find(hoist, entry.operand);
  bool toScalar = target->form == HoistForm::HeadScalar;
  Value address = getAddress(tensor, toScalar);
  Type type = kernel.f32;
  if (toScalar && isa<VectorType>(cotangent.getType()))
    cotangent = kernel.sumLanes(cotangent);
  if (toScalar) {
    Value old = convert(kernel.load(type, address), computeType);
    Value sum = arith::AddFOp::create(builder, kernel.loc, old, cotangent);
    return kernel.store(convert(sum, type), address);
  }
  Value old =
      convert(kernel.loadPart(kernel.vf32, address, count), computeType);
  Value sum = arith::AddFOp::create(builder, kernel.loc, old, cotangent);
  kernel.storePart(convert(sum, type), address, count);
}
