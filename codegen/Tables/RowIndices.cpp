//===- RowIndices.cpp - Rows that a map takes from a table ----------------===//

#include "codegen/Tables/RowIndices.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/RowBounds.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

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
                            unsigned indices, Index batch, Index row,
                            Index rows) {
  Type type = arguments.getElementType(indices);
  Value given = kernel.load(type, arguments.getAddress(indices, {batch, row}));
  Index index = type.isInteger(64) ? Index(given) : kernel.fromI32(given);
  return kernel.max(kernel.min(index, kernel.sub(rows, 1)), 0);
}

/// i64 [2]: the least and the greatest index, at most as far from 0 as i32
/// goes.
static Value launchIndexRange(const Lowering &lowering, Value indices) {
  Type wide = lowering.builder.getI64Type();
  auto type = RankedTensorType::get({2}, wide);
  LaunchOperands operands;
  unsigned source = operands.read(launchRowBounds(
      lowering, "range_of_indices", indices, /*columns=*/{}, RowBatch::All));
  Value range = lowering.allocate(type, {});
  unsigned target = operands.write(range);
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    items.forEach([&](const Item &) {
      Value base = arguments.getPointer(target);
      NumberBounds all =
          joinRowBounds(k, arguments, source, /*element=*/std::nullopt, 0);
      k.store(k.value(all.least), base);
      k.store(k.value(all.greatest), k.advance(base, {1}, wide));
    });
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
