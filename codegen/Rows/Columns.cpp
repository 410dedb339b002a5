//===- Columns.cpp - Columns appended to query and key rows ---------------===//

#include "codegen/Rows/Columns.h"
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

SmallVector<int64_t> codegen::getHeadParts(const KernelPlan &plan,
                                           Value operand) {
  SmallVector<int64_t> parts = getHeadDims(operand);
  for (const RowColumns &columns : plan.columns)
    parts.push_back(columns.count);
  return parts;
}

void codegen::emitHeadCopy(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const KernelPlan &plan, const SiteOperands &sites,
                           pos::RowOperand operand, const RowParts &parts,
                           const RowCopy &copy, Type element) {
  RowCopy rows = copy;
  rows.clearsNaN = false;
  emitRowCopy(kernel, arguments, rows, element);
  for (auto [part, columns] :
       llvm::zip_equal(parts.get().drop_front(), plan.columns)) {
    const Hoisted *table = plan.find(columns.get(operand), operand);
    RowCopy next = copy;
    next.tensor = *sites.tables[table - plan.hoisted.data()];
    next.batch = table->perBatch ? copy.batch : Index(0);
    next.head = table->perHead ? copy.head : Index(0);
    next.dim = part.dim;
    next.maps = {};
    next.to =
        kernel.advance(copy.to, {copy.pairs ? part.first / 2 : part.first});
    emitRowCopy(kernel, arguments, next, kernel.f32);
  }
}

namespace {
/// Adds up the parts of rows that belong to one table. Numbers are those of
/// the kernel's operands.
struct ColumnSum {
  const KernelPlan &plan;
  ArrayRef<RowPart> parts;
  unsigned source = 0, target = 0;

  Values sumVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                    ArrayRef<Index> row, int64_t low, int64_t high) const;
};
} // namespace

/// Vectors [low, high) of a row of the result (batch, head, row) at once: a row
/// of the partial sums is read as one stream.
Values ColumnSum::sumVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                             ArrayRef<Index> row, int64_t low,
                             int64_t high) const {
  auto range = [&](unsigned dim) {
    return getSummed(kernel, arguments.getSize(target, dim), row[dim],
                     arguments.getSize(source, dim + 1));
  };
  auto add = [&](ValueRange at, ValueRange sums) -> Values {
    Value from = arguments.getAddress(source, {at[2], at[0], at[1], row[2]});
    // Rows are read in pieces that are too far apart to be foreseen.
    Index ahead = kernel.mul(arguments.getStride(source, 3), rowsAhead);
    for (const RowPart &part : parts)
      for (int64_t lane = low * kernel.width();
           lane < std::min(high * kernel.width(), part.dim); lane += cacheLine)
        kernel.prefetch(from, {ahead, part.first + lane});
    Values next(sums);
    for (const RowPart &part : parts)
      for (auto [number, sum] : llvm::enumerate(next)) {
        int64_t lane = (low + number) * kernel.width();
        // Lanes past a part are those of a padding, zeros.
        if (lane < part.dim)
          sum =
              kernel.addF64(sum, kernel.loadVector(from, {part.first + lane}));
      }
    return next;
  };
  KernelBuilder::Range batches = range(0), heads = range(1);
  Values sums = kernel.nest({batches, heads, {0, arguments.getSize(source, 0)}},
                            Values(high - low, kernel.zero(kernel.vf64)), add);
  for (Value &sum : sums)
    sum = kernel.mulF(kernel.narrow(sum), kernel.splatF32(plan.scale));
  return sums;
}

void codegen::launchColumnSum(const Lowering &lowering, StringRef suffix,
                              Value partials, ArrayRef<RowPart> parts,
                              Value result) {
  LaunchOperands operands;
  ColumnSum sum{lowering.plan, parts};
  sum.source = operands.read(partials);
  sum.target = operands.write(result);
  int64_t columns = operands.layout.tensors[sum.target].getDimSize(3);
  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(sum.target, 0),
                              arguments.getSize(sum.target, 1),
                              {arguments.getSize(sum.target, 2), rowsPerItem}});
  };
  auto emitRow = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                     ArrayRef<Index> row) {
    Value to = arguments.getAddress(sum.target, row);
    int64_t vectors = llvm::divideCeil(columns, kernel.width());
    for (int64_t low = 0; low < vectors; low += vectorsAtOnce) {
      int64_t high = std::min(vectors, low + vectorsAtOnce);
      Values sums = sum.sumVectors(kernel, arguments, row, low, high);
      for (auto [number, vector] : llvm::enumerate(sums)) {
        int64_t lane = (low + number) * kernel.width();
        kernel.storePart(vector, kernel.advance(to, {lane}),
                         std::min<int64_t>(kernel.width(), columns - lane));
      }
    }
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      kernel.loop(item[2], item.end(2), 1, [&](Value row) {
        emitRow(kernel, arguments, {item[0], item[1], row});
      });
    });
  };
  operands.launch(lowering, suffix, {getItems, noScratch, run});
}
