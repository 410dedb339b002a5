//===- BackwardContextual.cpp - Contextual places of the backward ---------===//
//
// Lanes are keys. A running sum is a scan over the lanes of a vector on top of
// what the tiles before it left in the row's carry, so tiles, panels and
// vectors follow the direction of the scans.
//
// The gradient of a value is the sum of the cotangents of the keys at and after
// it, in the opposite direction. Instead of the opposite order of tiles, whose
// running sums would have to be kept, a first sweep sums up the cotangents of
// each row and the second subtracts those of the keys that it has passed.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Products with tables
//===----------------------------------------------------------------------===//

Value BackwardSite::readQueryProducts(unsigned products, Index rows,
                                      Value index) {
  return readProducts(products, headIndex, getQuery(), rows, index);
}

void BackwardSite::addToQueryProducts(unsigned sums, Index rows, Value index,
                                      Value addend) {
  Value base =
      arguments.getAddress(sums, {chunk, batchIndex, headIndex, getQuery()});
  TableEntry entry = toEntry(index, rows);
  auto addOne = [&](Value row, Value value) {
    Value at = kernel.advance(base, {kernel.fromI32(row)});
    kernel.store(kernel.addF(kernel.loadF32(at), value), at);
  };
  addend = kernel.broadcast(addend);
  if (!isa<VectorType>(index.getType()))
    return addOne(entry.row, kernel.sumLanes(addend));
  auto [firstRow, isSame] = findSame(entry.row);
  Value first = firstRow;
  kernel.when(
      isSame, [&] { addOne(first, kernel.sumLanes(addend)); },
      [&] {
        kernel.store(entry.row, lanesMemory);
        kernel.storeVector(addend, lanesMemory, {kernel.width()});
        kernel.loop(0, kernel.width(), 1, [&](Value lane) {
          addOne(kernel.load(kernel.i32,
                             kernel.advance(lanesMemory, {lane}, kernel.i32)),
                 kernel.loadF32(lanesMemory, {lane, kernel.width()}));
        });
      });
}

/// Each lane has a key, and so sums, of its own.
void BackwardSite::addToKeyProducts(unsigned sums, Index rows, Value index,
                                    Value addend) {
  Index group = getLaneGroup(sums, 3, getKey());
  Value base = arguments.getAddress(sums, {0, batchIndex, kvHead, group});
  TableEntry entry = toEntry(index, rows);
  addend = kernel.broadcast(addend);
  auto addVector = [&](Value row) {
    Value at =
        kernel.advance(base, {kernel.mul(kernel.fromI32(row), kernel.width())});
    kernel.storeVector(kernel.addF(kernel.loadVector(at), addend), at);
  };
  if (!isa<VectorType>(index.getType()))
    return addVector(entry.row);
  auto [firstRow, isSame] = findSame(entry.row);
  Value first = firstRow;
  kernel.when(
      isSame, [&] { addVector(first); },
      [&] {
        Value places = getLanePlaces(entry.row);
        Value sum = kernel.gather(kernel.f32, base, places);
        kernel.scatter(kernel.addF(sum, addend), base, places);
      });
}

Value BackwardSite::rowDot(OpBuilder &, pos::RowDotOpInterface op,
                           Value index) {
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return offsetDot(product, index);
  unsigned products = operands.rowProducts[plan.findTable(op)];
  if (op.getSide() == pos::Side::query)
    return readQueryProducts(products, countRows(op), index);
  return readLaneProducts(products, kvHead, getKey(), countRows(op), index);
}

void BackwardSite::addToRowDot(OpBuilder &, pos::RowDotOpInterface op,
                               Value index, Value cotangent) {
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return addToOffsetDot(product, cotangent);
  if (sweep == Sweep::Totals)
    return;
  unsigned sums = *task.rowProductGradients[plan.findTable(op)];
  if (op.getSide() == pos::Side::query)
    addToQueryProducts(sums, countRows(op), index, cotangent);
  else
    addToKeyProducts(sums, countRows(op), index, cotangent);
}

/// The product with the row of the cell's offset.
Value BackwardSite::offsetDot(pos::OffsetDotOp op, Value index) {
  Value product = kernel.loadVector(
      offsetProducts[plan.findOffsetProduct(op)],
      {kernel.mul(row, offsetStride), kernel.mul(vector, kernel.width())});
  if (!index)
    return product;
  return orNaN(product, toEntry(kernel.broadcast(index), countRows(op)));
}

void BackwardSite::addToOffsetDot(pos::OffsetDotOp op, Value cotangent) {
  if (sweep != Sweep::Totals)
    kernel.storeVector(kernel.broadcast(cotangent),
                       offsetGradients[plan.findOffsetProduct(op)],
                       {kernel.mul(row, task.shape.stride),
                        kernel.mul(vector, kernel.width())});
}

//===----------------------------------------------------------------------===//
// Scans
//===----------------------------------------------------------------------===//

Value BackwardSite::getScanState(ScanState state, unsigned scan, Index query) {
  Index number = static_cast<unsigned>(state) * plan.scans.size() + scan;
  return arguments.getAddress(task.scanState,
                              {number, batchIndex, headIndex, query});
}

/// The sums of the lanes up to each, in the direction of the scans.
Value BackwardSite::scanLanes(Value lanes) {
  int64_t width = kernel.width();
  Value zero = kernel.splatF32(0.0);
  for (int64_t step = 1; step < width; step *= 2) {
    SmallVector<int64_t> mask;
    for (int64_t lane = 0; lane < width; ++lane) {
      int64_t from = plan.isLeftward() ? lane + step : lane - step;
      mask.push_back(from >= 0 && from < width ? from : width);
    }
    lanes = kernel.addF(lanes, kernel.shuffle(lanes, zero, mask));
  }
  return lanes;
}

/// The last lane in the direction of the scans.
Value BackwardSite::getLastLane(Value lanes) {
  int64_t lane = plan.isLeftward() ? 0 : kernel.width() - 1;
  return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, lanes,
                                        kernel.constantI32(lane));
}

Value BackwardSite::getCellSums(unsigned scan) {
  Index first =
      kernel.mul(kernel.add(row, scan * task.shape.rows), task.shape.panel);
  return kernel.advance(cellSums, {first, kernel.mul(vector, kernel.width())});
}

Value BackwardSite::scan(OpBuilder &, pos::ScanOp op, Value value,
                         Value limit) {
  if (isSaturated)
    return limit;
  unsigned number = plan.findScan(op);
  Value sum;
  if (replays) {
    sum = kernel.loadVector(getCellSums(number));
  } else {
    Value counted = kernel.broadcast(value);
    if (visible)
      counted = kernel.selectF(visible, counted, kernel.splatF32(0.0));
    Value carry = getScanState(ScanState::Carry, number, getQuery());
    sum = kernel.addF(kernel.loadBroadcast(carry), scanLanes(counted));
    kernel.store(getLastLane(sum), carry);
    kernel.storeVector(sum, getCellSums(number));
  }
  Value most = kernel.broadcast(limit);
  Value isBelow =
      kernel.compareF(arith::CmpFPredicate::ULT, sum, most); // NaN stays NaN
  return kernel.selectF(isBelow, sum, most);
}

Value BackwardSite::pullScan(OpBuilder &, pos::ScanOp op, Value limit,
                             Value cotangent) {
  Value zero = kernel.splatF32(0.0);
  if (isSaturated)
    return zero;
  unsigned number = plan.findScan(op);
  unsigned level = plan.scanLevels[number];
  // What it needs of other scans is not there yet.
  if (sweep == Sweep::Totals && level > totalsLevel)
    return zero;
  Value isBelow = kernel.compareF(arith::CmpFPredicate::OLT,
                                  kernel.loadVector(getCellSums(number)),
                                  kernel.broadcast(limit));
  Value pulled = kernel.selectF(isBelow, kernel.broadcast(cotangent), zero);
  Value totalAt = getScanState(ScanState::Total, number, getQuery());
  if (sweep == Sweep::Totals && level == totalsLevel) {
    kernel.store(kernel.addF(kernel.loadF32(totalAt), kernel.sumLanes(pulled)),
                 totalAt);
    return zero;
  }
  Value passedAt = getScanState(ScanState::Passed, number, getQuery());
  Value sums = scanLanes(pulled);
  Value rest = kernel.broadcast(
      kernel.subF(kernel.loadF32(totalAt), kernel.loadF32(passedAt)));
  Value result = kernel.subF(rest, kernel.subF(sums, pulled));
  kernel.store(kernel.addF(kernel.loadF32(passedAt), getLastLane(sums)),
               passedAt);
  return visible ? kernel.selectF(visible, result, zero) : result;
}

/// `count` rows, a multiple of `step`, from the row `first`.
Value BackwardSite::emitSaturated(Index first, int64_t count) {
  Value all;
  for (auto [number, scan] : llvm::enumerate(plan.scans)) {
    std::optional<double> limit = getLimit(scan);
    if (!limit)
      return {};
    Value carries = getScanState(ScanState::Carry, number, first);
    for (int64_t place = 0; place < count; place += kernel.width()) {
      // Lanes past the last row repeat the condition of nothing.
      int64_t lanes = std::min(count - place, kernel.width());
      Value reached = kernel.compareF(
          arith::CmpFPredicate::OGE,
          kernel.loadPart(kernel.vf32, kernel.advance(carries, {place}), lanes),
          kernel.splatF32(*limit));
      if (lanes < kernel.width()) {
        SmallVector<bool> past(kernel.width());
        for (int64_t lane = lanes; lane < kernel.width(); ++lane)
          past[lane] = true;
        Value isPast = kernel.constant(
            DenseElementsAttr::get(kernel.vi1, ArrayRef<bool>(past)));
        reached = kernel.either(reached, isPast);
      }
      all = kernel.both(all, reached);
    }
  }
  return holdsInAll(all);
}

/// Rows past the end count as having reached every limit.
void BackwardSite::clearScans(ScanState state, Index rows) {
  Index length = arguments.getSize(operands.query, 2);
  bool isCarry = state == ScanState::Carry;
  Value past = kernel.constantF32(
      isCarry ? std::numeric_limits<double>::infinity() : 0.0);
  for (unsigned scan = 0; scan < plan.scans.size(); ++scan) {
    Value to = getScanState(state, scan, 0);
    kernel.loop(0, rows, 1, [&](Value row) {
      Value exists = kernel.less(row, length);
      kernel.store(kernel.selectF(exists, kernel.constantF32(0.0), past),
                   kernel.advance(to, {row}));
    });
  }
}

//===----------------------------------------------------------------------===//
// Loops of the kernel
//===----------------------------------------------------------------------===//

Index BackwardKernel::inScanOrder(Index place, Index count, int64_t step) {
  if (!task.plan.isLeftward())
    return place;
  Index last = kernel.mul(kernel.div(kernel.sub(count, 1), step), step);
  return kernel.sub(last, place);
}

void BackwardKernel::emitSweeps(Index firstHead, Index group) {
  Index rows = arguments.getSize(*task.queryGradient, 3);
  for (unsigned tensor : task.getClearedSums())
    kernel.clear(arguments.getAddress(tensor, {chunk, batch, firstHead}),
                 kernel.mul(group, kernel.mul(arguments.getSize(tensor, 3),
                                              arguments.getSize(tensor, 4))));
  clearOffsets();
  if (task.plan.scans.empty())
    return emitTiles(firstHead, group);
  auto clear = [&](ArrayRef<BackwardSite::ScanState> states) {
    kernel.loop(firstHead, kernel.add(firstHead, group), 1, [&](Value value) {
      site.enterHead(batch, value);
      for (BackwardSite::ScanState state : states)
        site.clearScans(state, rows);
    });
  };
  using State = BackwardSite::ScanState;
  clear({State::Carry, State::Total, State::Passed});
  unsigned levels = *llvm::max_element(task.plan.scanLevels) + 1;
  for (unsigned level = 0; level < levels; ++level) {
    site.setSweep(BackwardSite::Sweep::Totals, level);
    emitTiles(firstHead, group);
    clear({State::Carry});
    // Scans of lower levels have passed their cotangents on.
    if (level > 0)
      clear({State::Passed});
  }
  site.setSweep(BackwardSite::Sweep::Gradients);
  return emitTiles(firstHead, group);
}

/// A cell, with and without its scans.
void BackwardKernel::emitCells(Index group, Index panel, bool isMasked) {
  if (task.plan.scans.empty())
    return emitCell(group, panel, isMasked);
  Value isSaturated =
      site.emitSaturated(kernel.add(firstQuery, group), shape.rows);
  auto emit = [&](bool saturated) {
    site.setSaturated(saturated);
    emitCell(group, panel, isMasked);
    site.setSaturated(false);
  };
  if (!isSaturated)
    return emit(false);
  kernel.when(
      isSaturated,
      [&] {
        if (site.getSweep() != BackwardSite::Sweep::Totals)
          emit(true);
      },
      [&] { emit(false); });
}

/// What weighted rows add to dP, and the sums of P per row of their tables.
Value BackwardKernel::addWeightedRows(Value gradient, Value p) {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    pos::WeightedRowsOp op = task.plan.weightedRows[number];
    Values row = callPayload(kernel, op.getBody().front(), {}, site);
    auto table = cast<BlockArgument>(op.getTable());
    Index rows = arguments.getSize(*task.sites.params[table.getArgNumber()], 0);
    Value product = kernel.broadcast(site.readQueryProducts(
        task.sites.outputProducts[number], rows, row.front()));
    // A hidden key may have any row.
    Value isSeen =
        kernel.compareF(arith::CmpFPredicate::UNE, p, kernel.splatF32(0.0));
    gradient = kernel.addF(
        gradient, kernel.selectF(isSeen, product, kernel.splatF32(0.0)));
    if (task.bucketGradients[number] &&
        site.getSweep() != BackwardSite::Sweep::Totals)
      site.addToQueryProducts(*task.bucketGradients[number], rows, row.front(),
                              p);
  }
  return gradient;
}
