//===- OperandRows.cpp - Mapped rows, once for all tiles ------------------===//

#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Rows/RowRegisters.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// The rows of an item are enough to share what an item costs, and few enough
/// to fill a GPU with items. In registers a row costs less, and an item as
/// much.
static constexpr int64_t rowsPerItem = 8, rowsPerItemInRegisters = 32;

/// Bytes that are copied at once.
static constexpr int64_t chunkBytes = 16;

static bool hasColumns(const KernelPlan &plan, pos::RowOperand operand) {
  return operand != pos::RowOperand::value && !plan.columns.empty();
}

RowParts codegen::getOperandParts(const KernelPlan &plan,
                                  pos::RowOperand operand, Value rows,
                                  int64_t lanes) {
  return RowParts(hasColumns(plan, operand) ? getHeadParts(plan, rows)
                                            : getHeadDims(rows),
                  lanes);
}

int64_t codegen::countOperandElements(const KernelPlan &plan,
                                      pos::RowOperand operand, Value rows,
                                      int64_t lanes) {
  int64_t dim = getOperandParts(plan, operand, rows, lanes).getDim();
  if (!hasColumns(plan, operand))
    return dim;
  unsigned bits =
      cast<RankedTensorType>(rows.getType()).getElementTypeBitWidth();
  return llvm::alignTo(dim, 8 * chunkBytes / bits);
}

namespace {
/// Rows that are mapped in registers; numbers are those of the operands.
struct MappedRows {
  RowRegisters registers;
  unsigned source, target;
  Type element;
};
} // namespace

/// Maps the rows of an item, several at a time.
static void emitRegisters(KernelBuilder &kernel, ArgumentBlock &arguments,
                          MappedRows mapped, const Item &item,
                          RowPoint &point) {
  RowRegisters &registers = mapped.registers;
  Value step =
      kernel.broadcast(kernel.toI32(arguments.getStride(mapped.source, 3)));
  Index last = kernel.sub(item.end(2), 1);
  int64_t together = registers.countRows();
  kernel.loop(item[2], item.end(2), together, [&](Value first) {
    SmallVector<Index> numbers;
    SmallVector<RowRegisters::Values> rows;
    // Behind the last row that row again.
    for (int64_t number = 0; number < together; ++number)
      numbers.push_back(kernel.min(kernel.add(first, number), last));
    for (Index number : numbers)
      rows.push_back(registers.load(
          arguments.getAddress(mapped.source, {item[0], item[1], number}), step,
          mapped.element));
    for (auto [number, row] : llvm::zip_equal(numbers, rows))
      row = registers.map(row, point, number);
    for (auto [number, row] : llvm::zip_equal(numbers, rows))
      registers.store(
          row, arguments.getAddress(mapped.target, {item[0], item[1], number}),
          mapped.element);
  });
}

Value codegen::launchOperandRows(const Lowering &lowering,
                                 const HoistTables &tables,
                                 pos::RowOperand operand, Value rows,
                                 StringRef suffix) {
  const KernelPlan &plan = lowering.plan;
  ArrayRef<RowMap> maps = getRowMaps(plan, operand);
  bool appends = hasColumns(plan, operand);
  if (maps.empty() && !appends)
    return rows;
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t width = lowering.target.width;
  RowParts parts = getOperandParts(plan, operand, rows, width);
  int64_t stored = countOperandElements(plan, operand, rows, width);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = stored;
  Value result = lowering.allocateLike(rows, type.clone(shape));
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  LaunchOperands operands;
  SiteOperands sites;
  unsigned source = operands.read(rows);
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  sites.append(plan, tables, operands.layout, operands.reads);
  unsigned target = operands.write(result);
  Type element = type.getElementType();
  int64_t words = getCopiedRowWords(lowering.target, stored, /*pairs=*/false);

  int64_t dim = type.getDimSize(3);
  bool inRegisters = !appends && RowRegisters::suit(lowering.target, maps);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel,
                     {arguments.getSize(source, 0),
                      arguments.getSize(source, 1),
                      {arguments.getSize(source, 2),
                       inRegisters ? rowsPerItemInRegisters : rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(inRegisters ? 0 : 4 * words);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    RowPoint point(kernel, arguments, plan, sites, operand);
    items.forEach([&](const Item &item) {
      point.enterHead(item[0], item[1]);
      if (inRegisters)
        return emitRegisters(
            kernel, arguments,
            {RowRegisters(kernel, maps, dim), source, target, element}, item,
            point);
      kernel.loop(item[2], item.end(2), 1, [&](Value row) {
        RowCopy copy;
        copy.tensor = source;
        copy.batch = item[0];
        copy.head = item[1];
        copy.first = row;
        copy.count = 1;
        copy.dim = dim;
        copy.maps = maps;
        copy.point = &point;
        copy.to = scratch;
        copy.rowWords = words;
        if (appends)
          emitHeadCopy(kernel, arguments, plan, sites, operand, parts, copy,
                       element);
        else
          emitRowCopy(kernel, arguments, copy, element);
        storeRow(kernel, scratch, stored,
                 arguments.getAddress(target, {item[0], item[1], row}),
                 element);
      });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return result;
}
