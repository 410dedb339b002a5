//===- OffsetRange.cpp - Offsets of given positions -----------------------===//

#include "codegen/OffsetRange.h"
#include "codegen/ArgumentPoint.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Bounds = std::pair<Index, Index>;

/// Smallest and largest coordinate of `length` rows (one at least) of an
/// element of the batch; indices from `start` where no positions are given.
static Bounds getBounds(KernelBuilder &kernel, ArgumentBlock &arguments,
                        std::optional<unsigned> positions, Index batch,
                        Index length, Index start) {
  if (!positions)
    return {start, kernel.sub(kernel.add(start, length), 1)};
  Index element = kernel.rem(batch, arguments.getSize(*positions, 0));
  auto load = [&](Index row) {
    Value address = arguments.getAddress(*positions, {element, row});
    return kernel.fromI32(kernel.load(kernel.i32, address));
  };
  Value first = kernel.value(load(0));
  KernelBuilder::Values both = kernel.loop(
      1, length, 1, {first, first}, [&](Value row, ValueRange known) {
        Index here = load(row);
        return KernelBuilder::Values{kernel.value(kernel.min(known[0], here)),
                                     kernel.value(kernel.max(known[1], here))};
      });
  return {both[0], both[1]};
}

static void emitRange(KernelBuilder &kernel, ArgumentBlock &arguments,
                      const PointLayout &layout, unsigned range) {
  Index batches = arguments.getScalar(layout.firstScalar);
  Index queries = arguments.getScalar(layout.firstScalar + 3);
  Index keys = arguments.getScalar(layout.firstScalar + 4);
  constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
  constexpr int64_t highest = std::numeric_limits<int32_t>::max();
  // Wider than i32: an offset of a large position may not fit.
  Value none[] = {kernel.constantI64(2 * highest),
                  kernel.constantI64(2 * lowest)};
  Value isEmpty = kernel.equal(kernel.min(queries, keys), 0);
  KernelBuilder::Values offsets = kernel.choose(
      isEmpty, {kernel.i64, kernel.i64},
      [&]() -> KernelBuilder::Values { return {none[0], none[1]}; },
      [&]() -> KernelBuilder::Values {
        return kernel.loop(
            0, batches, 1, none, [&](Value batch, ValueRange known) {
              Bounds query =
                  getBounds(kernel, arguments, layout.queryPositions, batch,
                            queries, kernel.sub(keys, queries));
              Bounds key = getBounds(kernel, arguments, layout.keyPositions,
                                     batch, keys, 0);
              Index low = kernel.sub(key.first, query.second);
              Index high = kernel.sub(key.second, query.first);
              return KernelBuilder::Values{
                  kernel.value(kernel.min(known[0], low)),
                  kernel.value(kernel.max(known[1], high))};
            });
      });
  Index low = offsets[0], high = offsets[1];
  Index size = kernel.mul(kernel.add(queries, keys), offsetsPerRow);
  auto both = [&](Value a, Value b) -> Value {
    return arith::AndIOp::create(kernel.builder, kernel.loc, a, b);
  };
  Value fits =
      both(kernel.less(kernel.sub(high, low), size),
           both(kernel.less(lowest - 1, low), kernel.less(high, highest + 1)));
  auto store = [&](int64_t entry, Index value) {
    kernel.store(
        kernel.toI32(value),
        kernel.advance(arguments.getPointer(range), {entry}, kernel.i32));
  };
  // Without rows there are no offsets, and a table holds them.
  Value isNone = kernel.less(high, low);
  store(0, kernel.select(isNone, 0, low));
  store(1, kernel.select(isNone, 0, high));
  store(2, kernel.select(fits, 1, 0));
}

Value codegen::launchOffsetRange(const Lowering &lowering) {
  auto type = RankedTensorType::get({3}, lowering.builder.getI32Type());
  Value result = lowering.allocate(type, {});
  LaunchOperands operands;
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  unsigned range = operands.write(result);
  auto items = [](KernelBuilder &, ArgumentBlock &) { return Index(1); };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    kernel.loop(begin, end, 1,
                [&](Value) { emitRange(kernel, arguments, layout, range); });
  };
  operands.launch(lowering, "range", {items, noScratch, run});
  return result;
}

Value codegen::loadOffsetRange(KernelBuilder &kernel, ArgumentBlock &arguments,
                               unsigned range, int64_t entry) {
  return kernel.load(kernel.i32, kernel.advance(arguments.getPointer(range),
                                                {entry}, kernel.i32));
}

Value codegen::emitHasOffsetTables(KernelBuilder &kernel,
                                   ArgumentBlock &arguments, unsigned range) {
  Value flag = loadOffsetRange(kernel, arguments, range, 2);
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, flag,
                               kernel.constantI32(0));
}
