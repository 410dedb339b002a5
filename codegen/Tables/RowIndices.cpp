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

/// An index as it is given.
static Index loadGivenIndex(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned indices, Index batch, Index row) {
  Type type = arguments.getElementType(indices);
  Value index = kernel.load(type, arguments.getAddress(indices, {batch, row}));
  return type.isInteger(64) ? Index(index) : kernel.fromI32(index);
}

Index codegen::loadRowIndex(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned indices, Index batch, Index row,
                            Index rows) {
  Index index = loadGivenIndex(kernel, arguments, indices, batch, row);
  return kernel.max(kernel.min(index, kernel.sub(rows, 1)), 0);
}

/// i64 [2]: the least and the greatest index, at most as far from 0 as i32
/// goes.
static Value launchIndexRange(const Lowering &lowering, Value indices) {
  Type wide = lowering.builder.getI64Type();
  auto type = RankedTensorType::get({2}, wide);
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
          Index index = loadGivenIndex(k, arguments, source, at[0], at[1]);
          return {k.value(k.min(now[0], index)), k.value(k.max(now[1], index))};
        });
    Value base = arguments.getPointer(target);
    Index least = k.max(both[0], lowest), greatest = k.min(both[1], highest);
    k.store(k.value(least), base);
    k.store(k.value(greatest), k.advance(base, {1}, wide));
  };
  operands.launch(lowering, "indices", {oneItem, noScratch, run});
  return range;
}

void codegen::emitIndexChecks(const Lowering &lowering) {
  std::optional<MappedRows> mapped = getMappedRows(lowering.plan.owner);
  if (!mapped || !mapped->indices)
    return;
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  // There is no row that could be taken for one outside of an empty table.
  Value rows = lowering.getDim(mapped->input, 0);
  Value indices =
      arith::MulIOp::create(builder, loc, lowering.getDim(mapped->indices, 0),
                            lowering.getDim(mapped->indices, 1));
  Value needed = arith::MinSIOp::create(builder, loc, indices, constant(1));
  exec::CheckOp::create(builder, loc, needed, exec::Predicate::at_most, rows,
                        "rows are taken from a table without rows: how many "
                        "are needed at least and are there");
  Value range = launchIndexRange(lowering, mapped->indices);
  exec::CheckDataOp::create(builder, loc, range, 0, exec::Predicate::at_least,
                            constant(0),
                            "an index of a row is negative: the least index "
                            "and the first row of the table");
  Value last = arith::SubIOp::create(builder, loc, rows, constant(1));
  exec::CheckDataOp::create(builder, loc, range, 1, exec::Predicate::at_most,
                            last,
                            "an index of a row is beyond its table: the "
                            "greatest index and the last row");
}
