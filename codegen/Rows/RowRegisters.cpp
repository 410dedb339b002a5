//===- RowRegisters.cpp - Rows that are mapped in registers ---------------===//

#include "codegen/Rows/RowRegisters.h"
#include "codegen/Rows/RowGroups.h"
#include "codegen/Rows/RowWords.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

bool RowRegisters::suit(const VectorTarget &target, ArrayRef<RowMap> maps,
                        int64_t dim) {
  if (target.loadsAtOnce == 1 || dim % target.width != 0)
    return false;
  return llvm::all_of(maps, [&](const RowMap &map) {
    return map.grouping != pos::Grouping::whole &&
           RowGroups::areVectors(target, map);
  });
}

int64_t RowRegisters::countRows() const {
  return std::max<int64_t>(kernel.target.loadsAtOnce * kernel.width() / dim, 1);
}

RowRegisters::Values RowRegisters::load(Value from, Value step, Type element) {
  Values row;
  for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
    Value places = arith::MulIOp::create(kernel.builder, kernel.loc,
                                         kernel.lanes(lane), step);
    row.push_back(kernel.gather(element, from, places));
  }
  return row;
}

void RowRegisters::store(ValueRange row, Value to, Type element) {
  for (auto [number, vector] : llvm::enumerate(row))
    kernel.store(kernel.roundTo(vector, element),
                 kernel.advance(to,
                                {static_cast<int64_t>(number) * kernel.width()},
                                element));
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
