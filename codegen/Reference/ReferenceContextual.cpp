//===- ReferenceContextual.cpp - Places that depend on data of the pair ---===//
//
// Products with tables, running sums over keys and weighted rows, one pair of
// rows at a time. A scan's gradient needs the pairs in the opposite order, so
// the backward visits a row twice: once to store the running sums, once against
// their direction.
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/Reference.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

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
  ReferenceKernel &r = *rows;
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
  ReferenceKernel &r = *rows;
  noteRead(op, index);
  return kernel
      .loop(0, contextual.query.width, 1, {r.constant(0.0)},
            [&](Value lane, ValueRange sum) -> KernelBuilder::Values {
              Value product = r.mul(getRowElement(op, lane),
                                    getTableElement(op, index, lane));
              return {r.add(sum[0], product)};
            })
      .front();
}

void ReferencePoint::addToRowDot(OpBuilder &builder, pos::RowDotOpInterface op,
                                 Value index, Value cotangent) {
  ReferenceKernel &r = *rows;
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
  ReferenceKernel &r = *rows;
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
  ReferenceKernel &r = *rows;
  Index number = plan.findScan(op);
  Value sum = r.load(contextual.sums, number, kernel.fromI32(keyRow));
  Value isBelow = kernel.compareF(arith::CmpFPredicate::OLT, sum, limit);
  r.addTo(contextual.carry, number, 0,
          kernel.selectF(isBelow, cotangent, r.constant(0.0)));
  Value total = r.load(contextual.carry, number, 0);
  return visible ? kernel.selectF(visible, total, r.constant(0.0)) : total;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

ContextualRow ReferenceKernel::allocateContextual(Index width, Index keys) {
  size_t scans = point.getPlan().scans.size();
  ContextualRow row;
  row.query = allocate(1, width);
  row.gradient = allocate(1, width);
  row.sums = allocate(scans, keys);
  row.carry = allocate(scans, 1);
  return row;
}

Index codegen::countContextual(KernelBuilder &kernel, const KernelPlan &plan,
                               Index width, Index keys) {
  return kernel.add(kernel.mul(width, 2),
                    kernel.mul(kernel.add(keys, 1), plan.scans.size()));
}

Index ReferenceKernel::toKey(Index step, Index keys) {
  const KernelPlan &plan = point.getPlan();
  if (plan.scans.empty() || plan.isLeftward() == point.contextual.replays)
    return step;
  return k.sub(k.sub(keys, 1), step);
}

//===----------------------------------------------------------------------===//
// Weighted rows
//===----------------------------------------------------------------------===//

/// The row of the table at the pair, i32.
Value ReferenceKernel::getBucket(pos::WeightedRowsOp op) {
  FailureOr<SmallVector<Value>> index =
      emitPayload(k.builder, op.getBody().front(), {}, point);
  if (succeeded(index)) {
    point.noteRead(op, index->front());
    return index->front();
  }
  point.failed = true;
  return k.constantI32(0);
}

Value ReferenceKernel::dotWeighted(pos::WeightedRowsOp op, const Matrix &row) {
  auto table = cast<BlockArgument>(op.getTable());
  Value bucket = getBucket(op);
  return k
      .loop(0, row.width, 1, {constant(0.0)},
            [&](Value lane, ValueRange sum) -> KernelBuilder::Values {
              Value element =
                  point.read(k.builder, table, {bucket, k.toI32(lane)});
              return {add(sum[0], mul(load(row, 0, lane), element))};
            })
      .front();
}

void ReferenceKernel::addWeighted(pos::WeightedRowsOp op, const Matrix &row,
                                  Value factor) {
  auto table = cast<BlockArgument>(op.getTable());
  Value bucket = getBucket(op);
  k.loop(0, row.width, 1, [&](Value lane) {
    Value element = point.read(k.builder, table, {bucket, k.toI32(lane)});
    addTo(row, 0, lane, mul(factor, element));
  });
}

void ReferenceKernel::addToWeighted(pos::WeightedRowsOp op, const Matrix &row,
                                    Value factor) {
  auto table = cast<BlockArgument>(op.getTable());
  if (!point.wantsGradient(table))
    return;
  Value bucket = getBucket(op);
  k.loop(0, row.width, 1, [&](Value lane) {
    point.addToRead(k.builder, table, {bucket, k.toI32(lane)},
                    mul(factor, load(row, 0, lane)));
  });
}
