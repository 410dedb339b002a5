//===- ScoreContextual.cpp - Contextual places of the forward -------------===//
//
// Lanes are queries. A table of products of query rows lies with lanes side by
// side, one of key rows row by row, so an entry that is the same in all lanes
// is one load and any other a gather. A running sum is a vector that goes from
// key to key.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Forward/ScoreSite.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value ScoreSite::rowDot(OpBuilder &, pos::RowDotOpInterface op, Value index) {
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return offsetDot(product, index);
  unsigned products = operands.rowProducts[plan.findTable(op)];
  if (op.getSide() == pos::Side::key)
    return readProducts(products, keyHead, getKey(), countRows(op), index);
  return readLaneProducts(products, headIndex, getFirst(), countRows(op),
                          index);
}

/// The product with the row of the cell's offset.
Value ScoreSite::offsetDot(pos::OffsetDotOp op, Value index) {
  int64_t panel = vectors * kernel.width();
  Value product = kernel.loadVector(
      offsetCells, {kernel.mul(row, panel), kernel.mul(vector, kernel.width()),
                    plan.findOffsetProduct(op) * offsetRows * panel});
  if (!index)
    return product;
  return orNaN(product, toEntry(kernel.broadcast(index), countRows(op)));
}

//===----------------------------------------------------------------------===//
// Scans
//===----------------------------------------------------------------------===//

void ScoreSite::enterScans(Value sums, int64_t capacityOfSums,
                           int64_t vectors) {
  scanSums = sums;
  scanCapacity = capacityOfSums;
  scanVectors = vectors;
  carries.clear();
  for (size_t scan = 0; scan < plan.scans.size(); ++scan)
    for (int64_t v = 0; v < vectors; ++v)
      carries.push_back(kernel.loadVector(
          scanSums, {scan * scanCapacity + v * kernel.width()}));
}

void ScoreSite::storeScans() {
  for (size_t scan = 0; scan < plan.scans.size(); ++scan)
    for (int64_t v = 0; v < scanVectors; ++v)
      kernel.storeVector(carries[scan * scanVectors + v], scanSums,
                         {scan * scanCapacity + v * kernel.width()});
}

Value ScoreSite::emitSaturated() {
  Value all;
  for (auto [number, scan] : llvm::enumerate(plan.scans)) {
    std::optional<double> limit = getLimit(scan);
    if (!limit)
      return {};
    for (int64_t v = 0; v < scanVectors; ++v) {
      Value reached = kernel.compareF(arith::CmpFPredicate::OGE,
                                      carries[number * scanVectors + v],
                                      kernel.splatF32(*limit));
      all = kernel.both(all, reached);
    }
  }
  return holdsInAll(all);
}

Value ScoreSite::scan(OpBuilder &, pos::ScanOp op, Value value, Value limit) {
  if (isSaturated)
    return limit;
  Value &carry =
      carries[plan.findScan(op) * scanVectors + vector.getConstant()];
  Value counted = kernel.broadcast(value);
  if (visible)
    counted = kernel.selectF(visible, counted, kernel.splatF32(0.0));
  carry = kernel.addF(carry, counted);
  Value most = kernel.broadcast(limit);
  Value isBelow = kernel.compareF(arith::CmpFPredicate::ULT, carry, most);
  return kernel.selectF(isBelow, carry, most); // NaN stays NaN
}

//===----------------------------------------------------------------------===//
// Weighted rows
//===----------------------------------------------------------------------===//

void ScoreSite::addToBuckets(Value buckets, int64_t panel, Index rows,
                             Value index, Value weights, Value memory) {
  OpBuilder &builder = kernel.builder;
  TableEntry entry = toEntry(kernel.broadcast(index), rows);
  // A hidden key has next to no weight, wherever its row is.
  Value isNothing = kernel.compareF(arith::CmpFPredicate::OLE, weights,
                                    kernel.splatF32(0x1p-120));
  entry.exists =
      arith::OrIOp::create(builder, kernel.loc, entry.exists, isNothing);
  Value addend = orNaN(weights, entry);
  auto [firstRow, isSame] = findSame(entry.row);
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
