//===- TablePoint.cpp - Where a payload stands in a table -----------------===//

#include "codegen/Tables/TablePoint.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/OffsetRange.h"

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

Value TablePoint::tensorRow(OpBuilder &builder, Side side) {
  return index(builder, side) ? getRow() : Value();
}

Value TablePoint::coord(OpBuilder &builder, Side side, int64_t axis) {
  Value place = index(builder, side);
  if (!place)
    return {};
  Side of = side == Side::self ? getSide(entry.operand) : side;
  Value given = getPosition(of, axis, getRow());
  return given ? given : place;
}

/// Quotient of i32 that are not negative, exact: those of doubles are apart
/// enough.
static Value divide(KernelBuilder &kernel, Value a, Value b) {
  OpBuilder &builder = kernel.builder;
  Type wide = VectorType::get(kernel.width(), builder.getF64Type());
  auto toWide = [&](Value value) -> Value {
    return arith::SIToFPOp::create(builder, kernel.loc, wide,
                                   kernel.broadcast(value));
  };
  Value quotient =
      arith::DivFOp::create(builder, kernel.loc, toWide(a), toWide(b));
  return arith::FPToSIOp::create(builder, kernel.loc, kernel.vi32, quotient);
}

/// Entries run over the offsets of the axes, the last one fastest.
Value TablePoint::offsetInRange(int64_t axis) {
  SmallVector<int64_t> axes = getOffsetAxes(plan);
  int64_t place = llvm::find(axes, axis) - axes.begin(), last = axes.size() - 1;
  OffsetRange range(kernel, arguments, *layout.range);
  Value step = range.getStep(place);
  Value digit = arith::MinSIOp::create(
      kernel.builder, kernel.loc, column,
      kernel.broadcast(subI(range.getCount(), kernel.constantI32(1))));
  if (place != 0) {
    Value before = range.getStep(place - 1);
    digit = subI(digit, mulI(divide(kernel, digit, before), before));
  }
  if (place != last)
    digit = divide(kernel, digit, step);
  return options.order == OffsetOrder::Ascending
             ? addI(digit, range.getLeast(place))
             : subI(range.getGreatest(place), digit);
}

Index TablePoint::countOutside(pos::Extent side) {
  if (options.unit == 1)
    return options.padding;
  Index rows = getExtent(side);
  return kernel.add(kernel.sub(countWholeRows(kernel, options, rows), rows),
                    options.padding);
}

Value TablePoint::offset(OpBuilder &builder, int64_t axis) {
  if (entry.form != HoistForm::OffsetTable)
    return {};
  if (layout.range)
    return offsetInRange(axis);
  // Coordinates are indices, on every axis.
  Location loc = kernel.loc;
  Value queries = kernel.toI32(getExtent(pos::Extent::query));
  Value keys = kernel.toI32(getExtent(pos::Extent::key));
  Value one = kernel.constantI32(1);
  Value low = subI(one, keys), high = subI(queries, one);
  if (layout.point.queryTail) {
    Value tail = kernel.toI32(getQueryTail());
    low = addI(low, tail);
    high = addI(high, tail);
  }
  // Entries outside hold the value of the nearest offset.
  bool isAscending = options.order == OffsetOrder::Ascending;
  Index before =
      countOutside(isAscending ? pos::Extent::query : pos::Extent::key);
  Value step = subI(column, kernel.toI32(before));
  Value value = isAscending ? addI(step, low) : subI(high, step);
  value = arith::MaxSIOp::create(builder, loc, value, kernel.broadcast(low));
  return arith::MinSIOp::create(builder, loc, value, kernel.broadcast(high));
}

/// Batch element and head in a tensor that has them from `dim` on: an earlier
/// hoist may vary with less than this one.
SmallVector<Index> TablePoint::getPlace(unsigned tensor, unsigned dim) {
  SmallVector<Index> indices{entry.perBatch ? batch : Index(0),
                             hasHead() ? headIndex : Index(0)};
  for (Index &index : indices)
    index = kernel.rem(index, arguments.getSize(tensor, dim++));
  return indices;
}

Value TablePoint::getRangeAddress(unsigned tensor, Index number) {
  SmallVector<Index> indices = getPlace(tensor, 1);
  indices.insert(indices.begin(), number);
  return arguments.getAddress(tensor, indices);
}

Value TablePoint::getAddress(unsigned tensor, bool isScalarBuffer) {
  SmallVector<Index> indices = getPlace(tensor, 0);
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
  if (target->form == HoistForm::HeadScalar) {
    if (isa<VectorType>(cotangent.getType()))
      cotangent = kernel.sumLanes(cotangent);
    Index number = layout.ranges ? kernel.fromI32(range) : Index(0);
    return kernel.addToF64(getRangeAddress(tensor, number), cotangent);
  }
  Value address = getAddress(tensor, /*isScalarBuffer=*/false);
  Type type = kernel.f32;
  Value old =
      convert(kernel.loadPart(kernel.vf32, address, count), computeType);
  Value sum = arith::AddFOp::create(builder, kernel.loc, old, cotangent);
  kernel.storePart(convert(sum, type), address, count);
}
