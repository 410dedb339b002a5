//===- UsedEntries.cpp - The rows of a table that scores look up ----------===//
//
// A lookup at a function of the offset, such as a clipped distance, reads the
// same rows of the table wherever the queries are. Those of offsets that the
// mask hides need no products: half of a table, under a causal mask.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/OffsetPoint.h"
#include "codegen/Rows/RowProducts.h"
#include "codegen/Tables/ParamSums.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static constexpr int64_t block = OffsetShape::block;
/// Blocks of offsets that an item goes through at least.
static constexpr int64_t leastBlocks = 4;

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
  Value result = lowering.allocate(
      RankedTensorType::get({ShapedType::kDynamic, 2}, builder.getI32Type()),
      {countRanges(lowering, blocks, leastBlocks), Value()});
  unsigned target = operands.write(result);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0)});
  };
  auto emit = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index item) {
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
    auto begin = [&](Index number) {
      return getRangeBegin(kernel, number, arguments.getSize(target, 0),
                           arguments.getSize(seen, 0), 1);
    };
    Values range =
        kernel.loop(begin(item), begin(kernel.add(item, 1)), 1, none, visit);
    // What lies outside of the table is looked up nowhere.
    Index low = kernel.max(kernel.min(kernel.fromI32(range[0]), rows), 0);
    Index high = kernel.max(
        kernel.min(kernel.add(kernel.fromI32(range[1]), 1), rows), 0);
    kernel.store(kernel.toI32(low), arguments.getAddress(target, {item, 0}));
    kernel.store(kernel.toI32(high), arguments.getAddress(target, {item, 1}));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) { emit(kernel, arguments, item[0]); });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}
