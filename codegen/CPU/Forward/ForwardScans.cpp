//===- ForwardScans.cpp - Running sums of the forward ---------------------===//

#include "codegen/CPU/Forward/ForwardScans.h"
#include "codegen/Tiles/TableRows.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void ForwardScans::enter(Value memory, int64_t capacityOfSums,
                         int64_t panelVectors) {
  sums = memory;
  capacity = capacityOfSums;
  vectors = panelVectors;
  carries.clear();
  for (size_t scan = 0; scan < plan.scans.size(); ++scan)
    for (int64_t v = 0; v < vectors; ++v)
      carries.push_back(
          kernel.loadVector(sums, {scan * capacity + v * kernel.width()}));
}

void ForwardScans::store() {
  for (size_t scan = 0; scan < plan.scans.size(); ++scan)
    for (int64_t v = 0; v < vectors; ++v)
      kernel.storeVector(carries[scan * vectors + v], sums,
                         {scan * capacity + v * kernel.width()});
}

Value ForwardScans::emitSaturated() {
  Value all;
  for (auto [number, scan] : llvm::enumerate(plan.scans)) {
    std::optional<double> limit = getLimit(scan);
    if (!limit)
      return {};
    for (int64_t v = 0; v < vectors; ++v) {
      Value reached = kernel.compareF(arith::CmpFPredicate::OGE,
                                      carries[number * vectors + v],
                                      kernel.splatF32(*limit));
      all = kernel.both(all, reached);
    }
  }
  return holdsInAll(kernel, all);
}

Value ForwardScans::scan(pos::ScanOp op, Value value, Value limit,
                         int64_t vector) {
  if (isSaturated)
    return limit;
  Value &carry = carries[plan.findScan(op) * vectors + vector];
  carry = kernel.addF(carry, countVisible(kernel, value, visible));
  return clampSum(kernel, carry, limit);
}
