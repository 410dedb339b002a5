//===- RowBounds.cpp - Least and greatest numbers of rows -----------------===//

#include "codegen/Tables/RowBounds.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/ParamSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
static constexpr int64_t highest = std::numeric_limits<int32_t>::max();
/// Rows that an item looks at, at least.
static constexpr int64_t leastRows = 256;

namespace {
/// Numbers of the operands of the launch, and what it looks at.
struct BoundsLaunch {
  unsigned source = 0, target = 0;
  ArrayRef<int64_t> columns;
  RowBatch batch = RowBatch::Each;

  ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments) const;
  void emit(KernelBuilder &kernel, ArgumentBlock &arguments,
            const Item &item) const;

private:
  Index load(KernelBuilder &kernel, ArgumentBlock &arguments, Index element,
             Index row, int64_t column) const;
  /// `known` and the bounds of a column in rows of one element of the batch.
  Values extend(KernelBuilder &kernel, ArgumentBlock &arguments, Index element,
                const KernelBuilder::Range &rows, int64_t column,
                ValueRange known) const;
  Values find(KernelBuilder &kernel, ArgumentBlock &arguments, const Item &item,
              int64_t column) const;
  bool isEach() const { return batch == RowBatch::Each; }
};
} // namespace

ItemSpace BoundsLaunch::getItems(KernelBuilder &kernel,
                                 ArgumentBlock &arguments) const {
  if (isEach())
    return {kernel,
            {arguments.getSize(target, 0), arguments.getSize(target, 1)}};
  return {kernel, {arguments.getSize(target, 0)}};
}

Index BoundsLaunch::load(KernelBuilder &kernel, ArgumentBlock &arguments,
                         Index element, Index row, int64_t column) const {
  SmallVector<Index> at{element, row};
  if (!columns.empty())
    at.push_back(column);
  Type type = arguments.getElementType(source);
  Value number = kernel.load(type, arguments.getAddress(source, at));
  if (!type.isInteger(64))
    return kernel.fromI32(number);
  return kernel.max(kernel.min(number, highest), lowest);
}

Values BoundsLaunch::extend(KernelBuilder &kernel, ArgumentBlock &arguments,
                            Index element, const KernelBuilder::Range &rows,
                            int64_t column, ValueRange known) const {
  return kernel.loop(
      rows.low, rows.high, 1, known, [&](Value row, ValueRange now) -> Values {
        Index here = load(kernel, arguments, element, row, column);
        return {kernel.value(kernel.min(now[0], here)),
                kernel.value(kernel.max(now[1], here))};
      });
}

Values BoundsLaunch::find(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const Item &item, int64_t column) const {
  Value none[] = {kernel.constantI64(highest), kernel.constantI64(lowest)};
  Index elements = arguments.getSize(source, 0);
  Index length = arguments.getSize(source, 1);
  Index number = item[isEach() ? 1 : 0];
  Index ranges = arguments.getSize(target, isEach() ? 1 : 0);
  Index extent = isEach() ? length : kernel.mul(elements, length);
  Index begin = getRangeBegin(kernel, number, ranges, extent, 1);
  Index end = getRangeBegin(kernel, kernel.add(number, 1), ranges, extent, 1);
  if (isEach())
    return extend(kernel, arguments, item[0], {begin, end}, column, none);
  // The elements of the batch that the range reaches into.
  Index divisor = kernel.max(length, 1);
  return kernel.loop(kernel.div(begin, divisor), kernel.ceilDiv(end, divisor),
                     1, none, [&](Value element, ValueRange known) -> Values {
                       Index first = kernel.mul(element, length);
                       Index low = kernel.max(kernel.sub(begin, first), 0);
                       Index high = kernel.min(kernel.sub(end, first), length);
                       return extend(kernel, arguments, element, {low, high},
                                     column, known);
                     });
}

void BoundsLaunch::emit(KernelBuilder &kernel, ArgumentBlock &arguments,
                        const Item &item) const {
  auto emitColumn = [&](int64_t place, int64_t column) {
    Values both = find(kernel, arguments, item, column);
    for (auto [bound, value] : llvm::enumerate(both)) {
      SmallVector<Index> at{item[0]};
      if (isEach())
        at.push_back(item[1]);
      at.push_back(static_cast<int64_t>(2 * place + bound));
      kernel.store(kernel.toI32(value), arguments.getAddress(target, at));
    }
  };
  if (columns.empty())
    return emitColumn(0, 0);
  for (auto [place, column] : llvm::enumerate(columns))
    emitColumn(place, column);
}

Value codegen::launchRowBounds(const Lowering &lowering, StringRef suffix,
                               Value rows, ArrayRef<int64_t> columns,
                               RowBatch batch) {
  LaunchOperands operands;
  BoundsLaunch launch;
  launch.columns = columns;
  launch.batch = batch;
  launch.source = operands.read(rows);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  Value elements = lowering.getDim(rows, 0), length = lowering.getDim(rows, 1);
  SmallVector<int64_t> shape{dynamic};
  SmallVector<Value> sizes;
  if (batch == RowBatch::Each) {
    shape.push_back(dynamic);
    sizes.push_back(elements);
  } else {
    length = arith::MulIOp::create(lowering.builder, lowering.getLoc(),
                                   elements, length);
  }
  sizes.push_back(countRanges(lowering, length, leastRows));
  shape.push_back(2 * std::max<int64_t>(columns.size(), 1));
  sizes.push_back(Value());
  Value result = lowering.allocate(
      RankedTensorType::get(shape, lowering.builder.getI32Type()), sizes);
  launch.target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return launch.getItems(kernel, arguments);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach(
        [&](const Item &item) { launch.emit(kernel, arguments, item); });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}

NumberBounds codegen::joinRowBounds(KernelBuilder &kernel,
                                    ArgumentBlock &arguments, unsigned bounds,
                                    std::optional<Index> element,
                                    int64_t place) {
  auto load = [&](Index number, int64_t bound) {
    SmallVector<Index> at;
    if (element)
      at.push_back(*element);
    at.append({number, 2 * place + bound});
    return kernel.value(kernel.fromI32(
        kernel.load(kernel.i32, arguments.getAddress(bounds, at))));
  };
  Index ranges = arguments.getSize(bounds, element ? 1 : 0);
  Values both = kernel.loop(
      1, ranges, 1, {load(0, 0), load(0, 1)},
      [&](Value number, ValueRange known) -> Values {
        return {kernel.value(kernel.min(known[0], load(number, 0))),
                kernel.value(kernel.max(known[1], load(number, 1)))};
      });
  return {both[0], both[1]};
}
