//===- UsedEntries.cpp - The rows of a table that scores look up ----------===//
//
// A lookup at a function of the offset, such as a clipped distance, reads the
// same rows of the table wherever the queries are. Those of offsets that the
// mask hides need no products: half of a table, under a causal mask.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/OffsetPoint.h"
#include "codegen/Rows/RowProducts.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static constexpr int64_t block = OffsetShape::block;

/// The least and the greatest index at one entry of offsets and at the entries
/// before it, whose bounds are `carried`.
static Values widenRange(KernelBuilder &kernel, OffsetPoint &point,
                         ArrayRef<Value> indices, ValueRange carried) {
  Value low = carried[0], high = carried[1];
  for (Value index : indices) {
    llvm::SetVector<Operation *> ops;
    point.collect(index, ops);
    PayloadEmitter emitter(kernel.builder, point);
    Value row = callOps(kernel, emitter, ops.getArrayRef(), index);
    if (!row)
      continue;
    low = arith::MinSIOp::create(kernel.builder, kernel.loc, low, row);
    high = arith::MaxSIOp::create(kernel.builder, kernel.loc, high, row);
  }
  return {low, high};
}

Value sextant::codegen::launchUsedEntries(const Lowering &lowering,
                                          const HoistTables &tables,
                                          size_t number,
                                          const RowProducts &products) {
  ArrayRef<Value> indices = lowering.plan.offsetIndices[number];
  if (indices.empty())
    return {};
  OpBuilder &builder = lowering.builder;
  OffsetShape shape(lowering.target, /*dim=*/1);
  Value blocks = arith::CeilDivSIOp::create(
      builder, lowering.getLoc(),
      shape.countEntries(lowering, pos::Side::query),
      arith::ConstantIndexOp::create(builder, lowering.getLoc(), block));
  std::string suffix = ("entries_" + Twine(number)).str();
  LaunchOperands operands;
  unsigned seen = operands.read(launchSeenOffsets(
      lowering, tables, suffix + "_seen", blocks, pos::Side::query));
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  unsigned count = operands.scalar(products.countTableRows(lowering));
  Value result =
      lowering.allocate(RankedTensorType::get({2}, builder.getI32Type()), {});
  unsigned target = operands.write(result);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &) {
    return ItemSpace(kernel, {ItemAxis(1)});
  };
  auto emit = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    OffsetPoint point(kernel, arguments, layout, lowering.plan);
    Index rows = arguments.getScalar(count);
    Values none{kernel.toI32(rows), kernel.constantI32(-1)};
    Type types[] = {kernel.i32, kernel.i32};
    auto visit = [&](Value number, ValueRange carried) -> Values {
      Index first = kernel.mul(number, block);
      return kernel.choose(
          isBlockSeen(kernel, arguments, seen, number), types,
          [&] {
            return kernel.loop(
                first, kernel.add(first, block), 1, carried,
                [&](Value entry, ValueRange inner) {
                  point.moveToEntry(shape, entry, pos::Side::query);
                  return widenRange(kernel, point, indices, inner);
                });
          },
          [&] { return Values(carried); });
    };
    Values range = kernel.loop(0, arguments.getSize(seen, 0), 1, none, visit);
    // Whole vectors; what lies outside of the table is looked up nowhere.
    int64_t width = kernel.width();
    Index low = kernel.max(kernel.min(kernel.fromI32(range[0]), rows), 0);
    Index high = kernel.max(
        kernel.min(kernel.add(kernel.fromI32(range[1]), 1), rows), 0);
    low = kernel.mul(kernel.div(low, width), width);
    high = kernel.max(kernel.roundUp(high, width), low);
    kernel.store(kernel.toI32(low), arguments.getAddress(target, {0}));
    kernel.store(kernel.toI32(high), arguments.getAddress(target, {1}));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &) { emit(kernel, arguments); });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}
