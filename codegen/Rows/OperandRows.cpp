//===- OperandRows.cpp - Mapped rows, once for all tiles ------------------===//

#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// The rows of an item are enough to share what an item costs, and few enough
/// to fill a GPU with items.
static constexpr int64_t rowsPerItem = 8;

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

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(source, 0),
                              arguments.getSize(source, 1),
                              {arguments.getSize(source, 2), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(4 * words);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    RowPoint point(kernel, arguments, plan, sites, operand);
    items.forEach([&](const Item &item) {
      point.enterHead(item[0], item[1]);
      kernel.loop(item[2], item.end(2), 1, [&](Value row) {
        RowCopy copy;
        copy.tensor = source;
        copy.batch = item[0];
        copy.head = item[1];
        copy.first = row;
        copy.count = 1;
        copy.dim = type.getDimSize(3);
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
