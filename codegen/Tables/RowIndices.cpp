//===- RowIndices.cpp - Rows that a map takes from a table ----------------===//

#include "codegen/Tables/RowIndices.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

std::optional<MappedRows>
codegen::getMappedRows(pos::SitesOwnerInterface owner) {
  if (auto map = dyn_cast<pos::MapRowsOp>(*owner))
    return MappedRows{map.getInput(), map.getIndices()};
  if (auto map = dyn_cast<pos::MapRowsBackwardOp>(*owner))
    return MappedRows{map.getInput(), map.getIndices()};
  return std::nullopt;
}

Value codegen::allocateMapped(const Lowering &lowering, Type type) {
  MappedRows mapped = *getMappedRows(lowering.plan.owner);
  if (!mapped.indices)
    return lowering.allocateLike(mapped.input, type);
  return lowering.allocate(cast<RankedTensorType>(type),
                           {lowering.getDim(mapped.indices, 0),
                            lowering.getDim(mapped.indices, 1),
                            lowering.getDim(mapped.input, 1)});
}

Index codegen::loadRowIndex(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned indices, Index batch, Index row) {
  Type type = arguments.getElementType(indices);
  Value index = kernel.load(type, arguments.getAddress(indices, {batch, row}));
  return type.isInteger(64) ? Index(index) : kernel.fromI32(index);
}

/// i32 [2]: the least and the greatest index, at most as far from 0 as i32
/// goes.
static Value launchIndexRange(const Lowering &lowering, Value indices) {
  auto type = RankedTensorType::get({2}, lowering.builder.getI32Type());
  Value range = lowering.allocate(type, {});
  LaunchOperands operands;
  unsigned source = operands.read(indices);
  unsigned target = operands.write(range);
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &,
                 Value) {
    constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
    constexpr int64_t highest = std::numeric_limits<int32_t>::max();
    KernelBuilder::Values both = k.nest(
        {{0, arguments.getSize(source, 0)}, {0, arguments.getSize(source, 1)}},
        {k.constantI64(highest), k.constantI64(lowest)},
        [&](ValueRange at, ValueRange now) -> KernelBuilder::Values {
          Index index = loadRowIndex(k, arguments, source, at[0], at[1]);
          return {k.value(k.min(now[0], index)), k.value(k.max(now[1], index))};
        });
    Value base = arguments.getPointer(target);
    Index least = k.max(both[0], lowest), greatest = k.min(both[1], highest);
    k.store(k.toI32(least), base);
    k.store(k.toI32(greatest), k.advance(base, {1}, k.i32));
  };
  operands.launch(lowering, "indices", {oneItem, noScratch, run});
  return range;
}

void codegen::emitIndexChecks(const Lowering &lowering) {
  std::optional<MappedRows> mapped = getMappedRows(lowering.plan.owner);
  if (!mapped || !mapped->indices)
    return;
  Value range = launchIndexRange(lowering, mapped->indices);
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  auto entry = [&](int64_t number) -> Value {
    return exec::ElementOp::create(builder, loc, builder.getIndexType(), range,
                                   number);
  };
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  exec::CheckOp::create(builder, loc, constant(0), exec::Predicate::at_most,
                        entry(0),
                        "an index of a row is negative: the first row of the "
                        "table and the least index");
  Value rows = lowering.getDim(mapped->input, 0);
  Value last = arith::SubIOp::create(builder, loc, rows, constant(1));
  exec::CheckOp::create(builder, loc, entry(1), exec::Predicate::at_most, last,
                        "an index of a row is beyond its table: the greatest "
                        "index and the last row");
}
