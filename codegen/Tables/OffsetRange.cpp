//===- OffsetRange.cpp - Offsets of given positions -----------------------===//

#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/RowBounds.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

SmallVector<int64_t> codegen::getOffsetAxes(const KernelPlan &plan) {
  llvm::SmallSetVector<int64_t, 4> axes;
  for (const Hoisted &hoisted : plan.hoisted)
    if (hoisted.form == HoistForm::OffsetTable)
      hoisted.op->walk([&](pos::OffsetOp op) { axes.insert(op.getAxis()); });
  if (axes.empty())
    axes.insert(0);
  SmallVector<int64_t> sorted = axes.takeVector();
  llvm::sort(sorted);
  return sorted;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
using Bounds = std::pair<Index, Index>;

/// The rows of one side.
struct OffsetSide {
  std::optional<unsigned> positions; ///< none: coordinates are indices
  std::optional<unsigned> bounds; ///< of ranges of these: see launchRowBounds
  unsigned codes = 0;
  Index length = 0, firstIndex = 0;
};

class OffsetRangeLaunch {
public:
  OffsetRangeLaunch(KernelBuilder &kernel, ArgumentBlock &arguments,
                    ArrayRef<int64_t> axes, unsigned range)
      : kernel(kernel), arguments(arguments), axes(axes), range(range) {}

  /// Of an item, the codes of rows `rows`, and with the first row the rest.
  void emit(Index batches, const OffsetSide &query, const OffsetSide &key,
            OffsetOrder order, const KernelBuilder::Range &rows);

private:
  using Values = KernelBuilder::Values;

  Index loadCoord(const OffsetSide &side, int64_t axis, Index batch, Index row);
  Bounds getBounds(const OffsetSide &side, int64_t axis, Index batch);
  Bounds getOffsets(const OffsetSide &query, const OffsetSide &key,
                    int64_t axis, Index batches);
  void emitCodes(const OffsetSide &side, ArrayRef<Index> steps, Index start,
                 const KernelBuilder::Range &rows);
  void store(int64_t entry, Index value) {
    kernel.when(isFirst, [&] {
      kernel.store(
          kernel.toI32(value),
          kernel.advance(arguments.getPointer(range), {entry}, kernel.i32));
    });
  }

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  ArrayRef<int64_t> axes;
  unsigned range;
  Value isFirst;
};
} // namespace

Index OffsetRangeLaunch::loadCoord(const OffsetSide &side, int64_t axis,
                                   Index batch, Index row) {
  if (!side.positions)
    return kernel.add(side.firstIndex, row);
  Value address = arguments.getAddress(*side.positions, {batch, row, axis});
  return kernel.fromI32(kernel.load(kernel.i32, address));
}

/// Smallest and largest coordinate of the rows (one at least) of an element of
/// the batch.
Bounds OffsetRangeLaunch::getBounds(const OffsetSide &side, int64_t axis,
                                    Index batch) {
  if (!side.positions)
    return {side.firstIndex,
            kernel.sub(kernel.add(side.firstIndex, side.length), 1)};
  Index element = kernel.rem(batch, arguments.getSize(*side.positions, 0));
  int64_t place = llvm::find(axes, axis) - axes.begin();
  NumberBounds bounds =
      joinRowBounds(kernel, arguments, *side.bounds, element, place);
  return {bounds.least, bounds.greatest};
}

/// Smallest and largest offset of an axis; 0 where there are no rows.
Bounds OffsetRangeLaunch::getOffsets(const OffsetSide &query,
                                     const OffsetSide &key, int64_t axis,
                                     Index batches) {
  // Wider than i32: an offset of a large position may not fit.
  constexpr int64_t least = std::numeric_limits<int64_t>::min() / 4;
  Value none[] = {kernel.constantI64(-least), kernel.constantI64(least)};
  Value isEmpty = kernel.equal(kernel.min(query.length, key.length), 0);
  Values offsets = kernel.choose(
      isEmpty, {kernel.i64, kernel.i64},
      [&]() -> Values { return {none[0], none[1]}; },
      [&]() -> Values {
        return kernel.loop(
            0, batches, 1, none, [&](Value batch, ValueRange known) {
              Bounds queries = getBounds(query, axis, batch);
              Bounds keys = getBounds(key, axis, batch);
              Index low = kernel.sub(keys.first, queries.second);
              Index high = kernel.sub(keys.second, queries.first);
              return Values{kernel.value(kernel.min(known[0], low)),
                            kernel.value(kernel.max(known[1], high))};
            });
      });
  Index low = offsets[0], high = offsets[1];
  Value isNone = kernel.less(high, low);
  return {kernel.select(isNone, 0, low), kernel.select(isNone, 0, high)};
}

/// The sum of coordinates times steps, from `start`. Modulo 2^32: a difference
/// of two is an entry of a table.
void OffsetRangeLaunch::emitCodes(const OffsetSide &side, ArrayRef<Index> steps,
                                  Index start,
                                  const KernelBuilder::Range &rows) {
  Index end = kernel.min(rows.high, arguments.getSize(side.codes, 1));
  kernel.loop(0, arguments.getSize(side.codes, 0), 1, [&](Value batch) {
    kernel.loop(rows.low, end, 1, [&](Value place) {
      Index last = kernel.max(kernel.sub(side.length, 1), 0);
      Index row = kernel.min(place, last), code = start;
      for (auto [axis, step] : llvm::zip_equal(axes, steps))
        code = kernel.add(code,
                          kernel.mul(loadCoord(side, axis, batch, row), step));
      kernel.store(kernel.toI32(code),
                   arguments.getAddress(side.codes, {batch, place}));
    });
  });
}

void OffsetRangeLaunch::emit(Index batches, const OffsetSide &query,
                             const OffsetSide &key, OffsetOrder order,
                             const KernelBuilder::Range &rows) {
  isFirst = kernel.equal(rows.low, 0);
  constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
  constexpr int64_t highest = std::numeric_limits<int32_t>::max();
  Index size = kernel.mul(kernel.add(query.length, key.length), offsetsPerRow);
  // Counts beyond the size of a table stay just beyond it.
  Index beyond = kernel.add(size, 1), count = 1, start = 0;
  bool isAscending = order == OffsetOrder::Ascending;
  Value fits = kernel.constantI1(true);
  SmallVector<Index> steps(axes.size(), 1);
  for (int64_t place = axes.size() - 1; place >= 0; --place) {
    auto [low, high] = getOffsets(query, key, axes[place], batches);
    for (Value isInside :
         {kernel.less(lowest - 1, low), kernel.less(high, highest + 1)})
      fits = kernel.both(fits, isInside);
    steps[place] = count;
    store(2 + 3 * place, low);
    store(3 + 3 * place, high);
    store(4 + 3 * place, count);
    start = kernel.add(
        start, kernel.mul(isAscending ? kernel.sub(0, low) : high, count));
    Index extent = kernel.min(kernel.add(kernel.sub(high, low), 1), beyond);
    count = kernel.min(kernel.mul(count, extent), beyond);
  }
  // Without rows there is one offset, and a table need not hold it.
  Value isHeld = kernel.less(count, beyond);
  Value isEmpty = kernel.equal(size, 0);
  isHeld = kernel.either(isHeld, isEmpty);
  fits = kernel.both(fits, isHeld);
  store(0, count);
  store(1, kernel.select(fits, 1, 0));
  for (const OffsetSide *side : {&query, &key}) {
    bool isLanes = (side == &key) == isAscending;
    kernel.when(kernel.less(0, side->length), [&] {
      emitCodes(*side, steps, isLanes ? start : Index(0), rows);
    });
  }
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

int64_t codegen::countCodePadding(const VectorTarget &target) {
  return std::max<int64_t>(64, 4 * target.width);
}

/// Rows that an item gives codes.
static constexpr int64_t codesPerItem = 512;

OffsetBuffers codegen::launchOffsetRange(const Lowering &lowering,
                                         OffsetOrder order) {
  OpBuilder &builder = lowering.builder;
  Type i32 = builder.getI32Type();
  SmallVector<int64_t> axes = getOffsetAxes(lowering.plan);
  int64_t entries = 2 + 3 * axes.size();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, lowering.getLoc(), value);
  };
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  auto allocateCodes = [&](Value operand, Value positions) {
    Value batch = positions ? lowering.getDim(positions, 0) : constant(1);
    Value rows = arith::AddIOp::create(
        builder, lowering.getLoc(), lowering.getDim(operand, 2),
        constant(countCodePadding(lowering.target)));
    constexpr int64_t dynamic = ShapedType::kDynamic;
    return lowering.allocate(RankedTensorType::get({dynamic, dynamic}, i32),
                             {batch, rows});
  };
  OffsetBuffers result;
  result.range = lowering.allocate(RankedTensorType::get({entries}, i32), {});
  result.queryCodes = allocateCodes(owner.query, owner.queryPositions);
  result.keyCodes = allocateCodes(owner.key, owner.keyPositions);
  LaunchOperands operands;
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  OffsetSide query, key;
  if (owner.queryPositions)
    query.bounds = operands.read(launchRowBounds(lowering, "range_of_queries",
                                                 owner.queryPositions, axes,
                                                 RowBatch::Each));
  if (owner.keyPositions)
    key.bounds = operands.read(launchRowBounds(
        lowering, "range_of_keys", owner.keyPositions, axes, RowBatch::Each));
  query.positions = layout.queryPositions;
  unsigned range = operands.write(result.range);
  query.codes = operands.write(result.queryCodes);
  key.positions = layout.keyPositions;
  key.codes = operands.write(result.keyCodes);
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      query.length = arguments.getScalar(layout.firstScalar + 3);
      key.length = arguments.getScalar(layout.firstScalar + 4);
      query.firstIndex = kernel.sub(key.length, query.length);
      if (layout.queryTail)
        query.firstIndex = kernel.sub(query.firstIndex,
                                      arguments.getSize(*layout.queryTail, 0));
      OffsetRangeLaunch(kernel, arguments, axes, range)
          .emit(arguments.getScalar(layout.firstScalar), query, key, order,
                {item[0], item.end(0)});
    });
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index rows = kernel.max(arguments.getSize(query.codes, 1),
                            arguments.getSize(key.codes, 1));
    return ItemSpace(kernel, {{rows, codesPerItem}});
  };
  operands.launch(lowering, "range", {items, noScratch, run});
  return result;
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

Value OffsetRange::load(int64_t entry) {
  return kernel.load(kernel.i32, kernel.advance(arguments.getPointer(range),
                                                {entry}, kernel.i32));
}

Value OffsetRange::emitHasTables() {
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, load(1),
                               kernel.constantI32(0));
}
