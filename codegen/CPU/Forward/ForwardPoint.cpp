//===- ForwardPoint.cpp - Where the forward emits score payloads ----------===//

#include "codegen/CPU/Forward/ForwardPoint.h"
#include "codegen/Tiles/TableRows.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void ForwardPoint::packPositions(Index firstRow, Index count,
                                 int64_t rowCapacity, Value memory) {
  packed = memory;
  capacity = rowCapacity;
  if (!operands.queryPositions)
    return;
  unsigned tensor = *operands.queryPositions;
  Index last = kernel.sub(arguments.getSize(tensor, 1), 1);
  Index axes = kernel.min(arguments.getSize(tensor, 2), packedAxes);
  kernel.loop(0, count, 1, [&](Value row) {
    Value from = headPlace.getPositions(
        tensor, kernel.min(kernel.add(firstRow, row), last));
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

void ForwardPoint::enterPanel(Index firstRow, Index placeInItem) {
  first = firstRow;
  inItem = placeInItem;
}

void ForwardPoint::setPoint(Index vectorNumber, Index keyRow, Index rowInTile) {
  vector = vectorNumber;
  key = keyRow;
  row = rowInTile;
}

Index ForwardPoint::getCellPlace() {
  return kernel.mul(kernel.add(kernel.mul(row, vectors), vector),
                    kernel.width());
}

Index ForwardPoint::getKey() {
  return kernel.min(key, headPlace.getLast(pos::Side::key));
}

Value ForwardPoint::index(OpBuilder &, pos::Side side) {
  if (side == pos::Side::key)
    return kernel.toI32(key);
  return kernel.lanes(headPlace.toIndex(pos::Side::query, getFirst()));
}

Value ForwardPoint::tensorRow(OpBuilder &builder, pos::Side side) {
  return side == pos::Side::key ? index(builder, side)
                                : kernel.lanes(getFirst());
}

/// Under given positions of one side, rows of the other side past its end
/// repeat the last one as well: no offset lies outside of those in use.
Value ForwardPoint::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  if (!plan.hasPositions)
    return index(builder, side);
  if (side == pos::Side::key)
    return headPlace.getCoord(side, getKey(), axis);
  if (!operands.queryPositions) {
    Index last = headPlace.getLast(side);
    return arith::MinSIOp::create(
        kernel.builder, kernel.loc, index(builder, side),
        kernel.broadcast(
            kernel.toI32(headPlace.toIndex(pos::Side::query, last))));
  }
  assert(axis < packedAxes && "checked when the kernel was planned");
  return kernel.load(kernel.vi32,
                     kernel.advance(packed,
                                    {inItem, kernel.mul(vector, kernel.width()),
                                     axis * capacity},
                                    kernel.i32));
}

Value ForwardPoint::getLaneCodes() {
  return kernel.load(kernel.vi32, tables.getCode(pos::Side::query, getFirst()));
}

Value ForwardPoint::getRowCode() {
  return kernel.load(kernel.i32, tables.getCode(pos::Side::key, key));
}

Value ForwardPoint::loadHoisted(const Hoisted &hoisted, unsigned, Value start) {
  Type type = tables.getStoredType(hoisted);
  switch (hoisted.form) {
  case HoistForm::OffsetTable: {
    if (operands.offsetRange)
      return tables.loadAtOffsets(
          hoisted, start, [&] { return getLaneCodes(); },
          [&] { return getRowCode(); });
    // Descending: entry padding + (Lk - 1 - key) + query.
    Index entry = kernel.sub(arguments.getSize(operands.key, 2), key);
    entry = kernel.add(entry, getFirst());
    return tables.load(
        hoisted,
        kernel.advance(start, {entry, operands.offsetTables.padding - 1}, type),
        kernel.width());
  }
  case HoistForm::QueryVector: {
    Index left = kernel.sub(arguments.getSize(operands.query, 2), getFirst());
    Index count = kernel.min(left, kernel.width());
    return tables.load(hoisted, kernel.advance(start, {getFirst()}, type),
                       count);
  }
  case HoistForm::KeyVector:
    return tables.load(hoisted, kernel.advance(start, {getKey()}, type),
                       std::nullopt);
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    break;
  }
  llvm_unreachable("a score payload uses no value of this form");
}

//===----------------------------------------------------------------------===//
// Contextual places
//===----------------------------------------------------------------------===//

// A table of products of query rows lies with lanes side by side, one of key
// rows row by row, so an entry that is the same in all lanes is one load and
// any other a gather.

Value ForwardPoint::rowDot(OpBuilder &, pos::RowDotOpInterface op,
                           Value index) {
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return offsetDot(product, index);
  unsigned table = plan.findTable(op), products = operands.rowProducts[table];
  if (op.getSide() == pos::Side::key)
    return readProducts(headPlace, products, keyHead, getKey(),
                        countTableRows(headPlace, op), index,
                        /*runs=*/!plan.offsetIndices[table].empty());
  return readLaneProducts(headPlace, products, headPlace.head, getFirst(),
                          countTableRows(headPlace, op), index);
}

/// The product with the row of the cell's offset.
Value ForwardPoint::offsetDot(pos::OffsetDotOp op, Value index) {
  const BandCell &cell = bandCells[plan.findOffsetProduct(op)];
  Value product =
      kernel.loadVector(cell.products, {kernel.mul(row, cell.stride),
                                        kernel.mul(vector, kernel.width())});
  if (!index)
    return product;
  return orNaN(
      kernel, product,
      toEntry(kernel, kernel.broadcast(index), countTableRows(headPlace, op)));
}

void ForwardPoint::addToBuckets(Value buckets, int64_t panel, Index rows,
                                Value index, Value weights, Value memory) {
  OpBuilder &builder = kernel.builder;
  TableEntry entry = toEntry(kernel, kernel.broadcast(index), rows);
  // A hidden key has next to no weight, wherever its row is.
  Value isNothing = kernel.compareF(arith::CmpFPredicate::OLE, weights,
                                    kernel.splatF32(0x1p-120));
  entry.exists =
      arith::OrIOp::create(builder, kernel.loc, entry.exists, isNothing);
  Value addend = orNaN(kernel, weights, entry);
  auto [firstRow, isSame] = findSame(kernel, entry.row);
  Value first = firstRow;
  Value base = kernel.advance(buckets, {kernel.mul(vector, kernel.width())});
  auto addVector = [&] {
    Value at = kernel.advance(base, {kernel.mul(kernel.fromI32(first), panel)});
    kernel.storeVector(kernel.addF(kernel.loadVector(at), addend), at);
  };
  if (!isa<VectorType>(index.getType()))
    return addVector();
  kernel.when(isSame, addVector, [&] {
    kernel.store(entry.row, memory);
    kernel.storeVector(addend, memory, {kernel.width()});
    kernel.loop(0, kernel.width(), 1, [&](Value lane) {
      Value row =
          kernel.load(kernel.i32, kernel.advance(memory, {lane}, kernel.i32));
      Value at =
          kernel.advance(base, {kernel.mul(kernel.fromI32(row), panel), lane});
      Value weight = kernel.loadF32(memory, {lane, kernel.width()});
      kernel.store(kernel.addF(kernel.loadF32(at), weight), at);
    });
  });
}
