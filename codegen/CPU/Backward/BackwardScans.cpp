//===- BackwardScans.cpp - Running sums of the backward -------------------===//

#include "codegen/CPU/Backward/BackwardScans.h"
#include "codegen/Tiles/ScanValues.h"
#include "codegen/Tiles/TableRows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value BackwardScans::getState(State state, unsigned scan, Index query) {
  Index number = static_cast<unsigned>(state) * plan.scans.size() + scan;
  const HeadPlace &place = at.place;
  return place.arguments.getAddress(at.launch.scanState,
                                    {number, place.batch, place.head, query});
}

/// The sums of the lanes up to each, in the direction of the scans.
Value BackwardScans::scanLanes(Value lanes) {
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
Value BackwardScans::getLastLane(Value lanes) {
  int64_t lane = plan.isLeftward() ? 0 : kernel.width() - 1;
  return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, lanes,
                                        kernel.constantI32(lane));
}

Value BackwardScans::getCellSums(unsigned scan) {
  const BackwardShape &shape = at.launch.shape;
  Index first = kernel.mul(kernel.add(at.row, scan * shape.rows), shape.panel);
  return kernel.advance(cellSums, {first, at.getLane()});
}

Value BackwardScans::scan(pos::ScanOp op, Value value, Value limit) {
  if (isSaturated)
    return limit;
  unsigned number = plan.findScan(op);
  Value sum;
  if (replays) {
    sum = kernel.loadVector(getCellSums(number));
  } else {
    Value counted = countVisible(kernel, value, visible);
    Value carry = getState(State::Carry, number, at.getQuery());
    sum = kernel.addF(kernel.loadBroadcast(carry), scanLanes(counted));
    kernel.store(getLastLane(sum), carry);
    kernel.storeVector(sum, getCellSums(number));
  }
  return clampSum(kernel, sum, limit);
}

Value BackwardScans::pull(pos::ScanOp op, Value limit, Value cotangent) {
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
  Value totalAt = getState(State::Total, number, at.getQuery());
  if (sweep == Sweep::Totals && level == totalsLevel) {
    kernel.store(kernel.addF(kernel.loadF32(totalAt), kernel.sumLanes(pulled)),
                 totalAt);
    return zero;
  }
  Value passedAt = getState(State::Passed, number, at.getQuery());
  Value sums = scanLanes(pulled);
  Value rest = kernel.broadcast(
      kernel.subF(kernel.loadF32(totalAt), kernel.loadF32(passedAt)));
  Value result = kernel.subF(rest, kernel.subF(sums, pulled));
  kernel.store(kernel.addF(kernel.loadF32(passedAt), getLastLane(sums)),
               passedAt);
  return visible ? kernel.selectF(visible, result, zero) : result;
}

Value BackwardScans::emitSaturated(Index first, int64_t count) {
  Value all;
  for (auto [number, scan] : llvm::enumerate(plan.scans)) {
    std::optional<double> limit = getLimit(scan);
    if (!limit)
      return {};
    Value carries = getState(State::Carry, number, first);
    for (int64_t place = 0; place < count; place += kernel.width()) {
      // Lanes past the last row belong to no row: they count as saturated.
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
  return holdsInAll(kernel, all);
}

void BackwardScans::clear(State state, Index first, Index rows) {
  Index length = at.place.arguments.getSize(at.launch.sites.query, 2);
  bool isCarry = state == State::Carry;
  Value past = kernel.constantF32(
      isCarry ? std::numeric_limits<double>::infinity() : 0.0);
  for (unsigned scan = 0; scan < plan.scans.size(); ++scan) {
    Value to = getState(state, scan, first);
    kernel.loop(0, rows, 1, [&](Value row) {
      Value exists = kernel.less(kernel.add(first, row), length);
      kernel.store(kernel.selectF(exists, kernel.constantF32(0.0), past),
                   kernel.advance(to, {row}));
    });
  }
}
