//===- HeadPlace.cpp - What points of a head know -------------------------===//

#include "codegen/Tiles/HeadPlace.h"
#include "codegen/Tables/PositionBounds.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void SiteOperands::append(const KernelPlan &plan, const HoistTables &hoists,
                          KernelOperands &kernelOperands,
                          SmallVectorImpl<Value> &reads) {
  auto add = [&](Value tensor) -> Number {
    if (!tensor)
      return std::nullopt;
    reads.push_back(tensor);
    return kernelOperands.add(tensor.getType());
  };
  OwnerOperands owner = getOwnerOperands(plan.owner);
  queryPositions = add(owner.queryPositions);
  keyPositions = add(owner.keyPositions);
  queryTail = add(owner.queryTail);
  offsetRange = add(hoists.offsets.range);
  queryCodes = add(hoists.offsets.queryCodes);
  keyCodes = add(hoists.offsets.keyCodes);
  bounds = add(hoists.bounds);
  for (Value table : hoists.buffers)
    tables.push_back(add(table));
  for (Value range : hoists.rowRanges)
    ranges.push_back(add(range));
  for (Value table : hoists.hinges)
    hinges.push_back(*add(table));
  pos::SitesOwnerInterface op = plan.owner;
  Region &sites = op.getSitesRegion();
  for (auto [number, operand] : llvm::enumerate(op.getParamOperands())) {
    bool isRead = !sites.empty() && !sites.getArgument(number).use_empty();
    params.push_back(isRead ? add(operand) : std::nullopt);
  }
  offsetTables = hoists.options;
}

Index SiteOperands::getQueryShift(KernelBuilder &kernel,
                                  ArgumentBlock &arguments) const {
  Index shift =
      kernel.sub(arguments.getSize(key, 2), arguments.getSize(query, 2));
  return queryTail ? kernel.sub(shift, arguments.getSize(*queryTail, 0))
                   : shift;
}

Index SiteOperands::getFirstOffset(KernelBuilder &kernel,
                                   ArgumentBlock &arguments) const {
  assert(offsetTables.order == OffsetOrder::Ascending);
  Index rows =
      countWholeRows(kernel, offsetTables, arguments.getSize(query, 2));
  return kernel.add(rows, offsetTables.padding - 1);
}

Value HeadPlace::getExtent(pos::Extent extent) const {
  using pos::Extent;
  auto size = [&](unsigned tensor, unsigned dim) {
    return kernel.toI32(arguments.getSize(tensor, dim));
  };
  switch (extent) {
  case Extent::heads:
    return size(operands.query, 1);
  case Extent::kv_heads:
    return size(operands.key, 1);
  case Extent::head_dim:
    return size(operands.query, 3);
  case Extent::value_dim:
    return size(operands.values.front(), 3);
  case Extent::model:
    return kernel.toI32(kernel.mul(arguments.getSize(operands.query, 1),
                                   arguments.getSize(operands.query, 3)));
  case Extent::query:
    return size(operands.query, 2);
  case Extent::key:
    return size(operands.key, 2);
  case Extent::batch:
    return size(operands.query, 0);
  }
  llvm_unreachable("unknown extent");
}

SiteOperands::Number HeadPlace::findPositions(pos::Side side) const {
  return side == pos::Side::key ? operands.keyPositions
                                : operands.queryPositions;
}

Value HeadPlace::getBound(pos::Bound bound, pos::Side side,
                          int64_t axis) const {
  if (findPositions(side))
    return loadBound(kernel, arguments.getPointer(*operands.bounds), bound,
                     side, axis);
  return kernel.toI32(getIndexBound(kernel, bound, side,
                                    operands.getQueryShift(kernel, arguments),
                                    arguments.getSize(operands.query, 2),
                                    arguments.getSize(operands.key, 2)));
}

Value HeadPlace::getCoord(pos::Side side, Index row, int64_t axis) const {
  SiteOperands::Number positions = findPositions(side);
  if (!positions)
    return kernel.toI32(toIndex(side, row));
  Index step = kernel.mul(axis, arguments.getStride(*positions, 2));
  return kernel.load(kernel.i32, kernel.advance(getPositions(*positions, row),
                                                {step}, kernel.i32));
}

Index codegen::getTableBatch(KernelBuilder &kernel, ArgumentBlock &arguments,
                             const Hoisted &hoisted, unsigned table,
                             Index batch) {
  if (!hoisted.perBatch)
    return 0;
  return hoisted.param ? kernel.rem(batch, arguments.getSize(table, 0)) : batch;
}

Index HeadPlace::toIndex(pos::Side side, Index row) const {
  if (side == pos::Side::key)
    return row;
  return kernel.add(row, operands.getQueryShift(kernel, arguments));
}

Index HeadPlace::getLast(pos::Side side) const {
  unsigned tensor = side == pos::Side::key ? operands.key : operands.query;
  return kernel.sub(arguments.getSize(tensor, 2), 1);
}

Value HeadPlace::getPositions(unsigned positions, Index row) const {
  Index element = kernel.rem(batch, arguments.getSize(positions, 0));
  return arguments.getAddress(positions, {element, row});
}

std::pair<Index, Value>
HeadPlace::findEntry(unsigned param, ValueRange indices, Value ofBatch,
                     function_ref<Value(Value)> inLane) const {
  unsigned tensor = *operands.params[param];
  Index entry = 0;
  Value inside = kernel.constantI1(true);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Index extent = arguments.getSize(tensor, dim);
    bool isBatch = index == ofBatch;
    Index place = isBatch ? kernel.rem(batch, extent)
                          : Index(kernel.fromI32(inLane(index)));
    if (!isBatch)
      inside = kernel.both(
          inside, kernel.compare(arith::CmpIPredicate::ult, place, extent));
    entry = kernel.add(kernel.mul(entry, extent), place);
  }
  return {entry, inside};
}
