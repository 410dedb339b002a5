//===- RowRegisters.cpp - Rows that are mapped in registers ---------------===//

#include "codegen/Rows/RowRegisters.h"
#include "codegen/Rows/RowGroups.h"
#include "codegen/Rows/RowWords.h"
#include "codegen/Tables/PayloadCall.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

bool RowRegisters::suit(const VectorTarget &target, ArrayRef<RowMap> maps) {
  return target.loadsAtOnce > 1 && llvm::none_of(maps, [](const RowMap &map) {
           return map.grouping == pos::Grouping::whole;
         });
}

int64_t RowRegisters::countVectors() const {
  return static_cast<int64_t>(llvm::divideCeil(dim, kernel.width()));
}

int64_t RowRegisters::countRows() const {
  return std::max<int64_t>(kernel.target.loadsAtOnce / countVectors(), 1);
}

RowRegisters::Values RowRegisters::load(Value from, Value step, Type element) {
  Values row;
  for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
    Value lanes = kernel.lanes(lane);
    if (lane + kernel.width() > dim) // behind the last lane that one again
      lanes = minLanes(kernel, lanes,
                       kernel.splatI32(static_cast<int32_t>(dim - 1)));
    row.push_back(kernel.gather(element, from, mulLanes(kernel, lanes, step)));
  }
  return row;
}

void RowRegisters::store(ValueRange row, Value to, Type element) {
  for (auto [number, vector] : llvm::enumerate(row)) {
    int64_t lane = static_cast<int64_t>(number) * kernel.width();
    kernel.storePart(kernel.roundTo(vector, element),
                     kernel.advance(to, {lane}, element),
                     std::min(kernel.width(), dim - lane));
  }
}

RowRegisters::Values RowRegisters::apply(size_t count, ValueRange row,
                                         RowPoint &point, Index number) {
  Values mapped;
  for (Value vector : row)
    mapped.push_back(
        vector.getType() == kernel.vf32 ? vector : extendLanes(kernel, vector));
  for (const RowMap &map : maps.take_front(count))
    for (int64_t group = 0; group < map.getNumGroups();
         group += kernel.width()) {
      point.setPoint(number, group);
      RowGroups groups(kernel, map, group);
      pos::RowsOp op = map.op;
      Values values = callPayload(kernel, op.getBody().front(),
                                  groups.getFrom(mapped), point);
      for (Value &value : values)
        value = kernel.broadcast(value);
      groups.putInto(mapped, values);
    }
  return mapped;
}

RowRegisters::Values RowRegisters::map(ValueRange row, RowPoint &point,
                                       Index number) {
  return apply(maps.size(), row, point, number);
}

RowRegisters::Values RowRegisters::pull(ValueRange row, ValueRange gradient,
                                        RowPoint &point, Index number) {
  Values pulled(gradient);
  // Each map needs the row that it was applied to. Unused values cost nothing.
  for (size_t last = maps.size(); last-- > 0;) {
    Values before = apply(last, row, point, number);
    const RowMap &map = maps[last];
    for (int64_t group = 0; group < map.getNumGroups();
         group += kernel.width()) {
      point.setPoint(number, group);
      RowGroups groups(kernel, map, group);
      pos::RowsOp op = map.op;
      Values cotangents =
          callPullback(kernel, op.getBody().front(), groups.getFrom(before),
                       groups.getFrom(pulled), point);
      for (Value &cotangent : cotangents)
        cotangent =
            cotangent ? kernel.broadcast(cotangent) : kernel.splatF32(0.0);
      groups.putInto(pulled, cotangents);
    }
  }
  return pulled;
}
