//===- TableRowSums.cpp - Gradients of tables over rows -------------------===//

#include "codegen/Rows/TableRowSums.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Rows of a table's gradient that an item adds up.
static constexpr int64_t rowsPerItem = 64;
/// Vectors of a row that are added up together, in registers.
static constexpr int64_t vectorsAtOnce = 4;
/// How many rows before they are added up they are asked for.
static constexpr int64_t rowsAhead = 8;

namespace {
/// Emits the sums. Numbers are those of the kernel's operands.
struct TableRowSum {
  const Hoisted &hoisted;
  const TableRowSums &sums;
  unsigned source = 0, target = 0, rows = 0;
  std::optional<unsigned> shift = std::nullopt;

  ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments) const;
  Index getFirstRow(KernelBuilder &kernel, ArgumentBlock &arguments) const;
  void emitRow(KernelBuilder &kernel, ArgumentBlock &arguments,
               ArrayRef<Index> place) const;

private:
  Values sumVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                    ArrayRef<Index> place, int64_t low, int64_t high) const;
  Values addRow(KernelBuilder &kernel, ArgumentBlock &arguments, Value from,
                int64_t low, ValueRange sums) const;
};
} // namespace

ItemSpace TableRowSum::getItems(KernelBuilder &kernel,
                                ArgumentBlock &arguments) const {
  Index batches = 1;
  if (hoisted.perBatch) // none where the sums are in place
    batches =
        kernel.min(arguments.getSize(target, 0), arguments.getSize(source, 1));
  Index heads = hoisted.perHead ? arguments.getSize(source, 2) : Index(1);
  return ItemSpace(kernel,
                   {batches, heads, {arguments.getScalar(rows), rowsPerItem}});
}

/// Vectors from `low` on of all parts of a row of the partial sums.
Values TableRowSum::addRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                           Value from, int64_t low, ValueRange added) const {
  // Rows are read in pieces that are too far apart to be foreseen.
  Index ahead = kernel.mul(arguments.getStride(source, 3), rowsAhead);
  int64_t width = kernel.width(), high = low + added.size();
  Values next(added);
  for (const RowPart &part : sums.parts) {
    for (int64_t lane = low * width; lane < std::min(high * width, part.dim);
         lane += cacheLine)
      kernel.prefetch(from, {ahead, part.first + lane});
    for (auto [number, sum] : llvm::enumerate(next)) {
      int64_t lane = (low + number) * width;
      if (lane >= part.dim)
        continue;
      Value place = kernel.advance(from, {part.first + lane});
      sum =
          kernel.addF64(sum, kernel.loadPart(kernel.vf32, place,
                                             std::min(width, part.dim - lane)));
    }
  }
  return next;
}

/// The last of the rows of the partial sums that are all of row 0 of the table.
Index TableRowSum::getFirstRow(KernelBuilder &kernel,
                               ArgumentBlock &arguments) const {
  if (!shift)
    return 0;
  Index before = kernel.max(kernel.sub(0, arguments.getScalar(*shift)), 0);
  return kernel.min(before, kernel.sub(arguments.getScalar(rows), 1));
}

/// Vectors [low, high) of the sum of a row (batch, head, row of the partial
/// sums) at once: a row of the partial sums is read as one stream.
Values TableRowSum::sumVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                               ArrayRef<Index> place, int64_t low,
                               int64_t high) const {
  Index batches = arguments.getSize(source, 1);
  Index heads = hoisted.perHead ? Index(1) : arguments.getSize(source, 2);
  Index step = 1;
  if (hoisted.perBatch) {
    // The element of the batch counts modulo that of the table.
    step = arguments.getSize(target, 0);
    batches = kernel.ceilDiv(kernel.sub(batches, place[0]), step);
  }
  auto add = [&](ValueRange at, ValueRange added) -> Values {
    Index batch = kernel.add(place[0], kernel.mul(at[0], step));
    Index row = shift ? Index(at[3]) : place[2];
    Value from = arguments.getAddress(
        source, {at[2], batch, kernel.add(place[1], at[1]), row});
    return addRow(kernel, arguments, from, low, added);
  };
  SmallVector<KernelBuilder::Range> ranges{
      {0, batches}, {0, heads}, {0, arguments.getSize(source, 0)}};
  if (shift) {
    // Rows before the first one of the table are of that, too.
    Value isFirst = kernel.equal(place[2], getFirstRow(kernel, arguments));
    ranges.push_back(
        {kernel.select(isFirst, 0, place[2]), kernel.add(place[2], 1)});
  }
  return kernel.nest(ranges, Values(high - low, kernel.zero(kernel.vf64)), add);
}

void TableRowSum::emitRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                          ArrayRef<Index> place) const {
  Index row = place[2];
  if (shift)
    row = kernel.max(kernel.add(row, arguments.getScalar(*shift)), 0);
  Value to = arguments.getAddress(target, {place[0], place[1], row});
  int64_t width = kernel.width(), columns = 0;
  for (const RowPart &part : sums.parts)
    columns = std::max(columns, part.dim);
  int64_t vectors = llvm::divideCeil(columns, width);
  for (int64_t low = 0; low < vectors; low += vectorsAtOnce) {
    int64_t high = std::min(vectors, low + vectorsAtOnce);
    Values added = sumVectors(kernel, arguments, place, low, high);
    for (auto [number, wide] : llvm::enumerate(added)) {
      int64_t lane = (low + number) * width;
      int64_t count = std::min(width, columns - lane);
      Value sum = kernel.narrow(wide);
      if (sums.factor != 1.0)
        sum = kernel.mulF(sum, kernel.splatF32(sums.factor));
      Value first = kernel.advance(to, {lane});
      if (sums.adds)
        sum = kernel.addF(kernel.loadPart(kernel.vf32, first, count), sum);
      kernel.storePart(sum, first, count);
    }
  }
}

void codegen::launchTableRowSums(const Lowering &lowering, StringRef suffix,
                                 const Hoisted &hoisted,
                                 const TableRowSums &sums, Value target) {
  LaunchOperands operands;
  TableRowSum sum{hoisted, sums};
  sum.source = operands.read(sums.partials);
  sum.target = operands.write(target);
  sum.rows = operands.scalar(sums.rows);
  if (sums.shift)
    sum.shift = operands.scalar(sums.shift);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return sum.getItems(kernel, arguments);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &all, Value) {
    all.forEach([&](const Item &item) {
      Index first = kernel.max(item[2], sum.getFirstRow(kernel, arguments));
      kernel.loop(first, item.end(2), 1, [&](Value row) {
        sum.emitRow(kernel, arguments, {item[0], item[1], row});
      });
    });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
}
