//===- OperandRows.cpp - Mapped rows, once for all tiles ------------------===//

#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Of an item: enough to share what an item costs, few enough to fill a GPU.
static constexpr int64_t rowsPerItem = 8;

Value codegen::launchOperandRows(const Lowering &lowering,
                                 const HoistTables &tables,
                                 pos::RowOperand operand, Value rows,
                                 StringRef suffix) {
  ArrayRef<RowMap> maps = getRowMaps(lowering.plan, operand);
  if (maps.empty())
    return rows;
  auto type = cast<RankedTensorType>(rows.getType());
  Value result = lowering.allocateLike(rows, type);
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  LaunchOperands operands;
  SiteOperands sites;
  unsigned source = operands.read(rows);
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  sites.append(lowering.plan, tables, operands.layout, operands.reads);
  unsigned target = operands.write(result);
  Type element = type.getElementType();
  int64_t dim = type.getDimSize(3);
  int64_t words = getCopiedRowWords(lowering.target, dim, /*pairs=*/false);

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
    RowPoint point(kernel, arguments, lowering.plan, sites, operand);
    items.forEach([&](const Item &item) {
      point.enterHead(item[0], item[1]);
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
        emitRowCopy(kernel, arguments, copy, element);
        storeRow(kernel, scratch, dim,
                 arguments.getAddress(target, {item[0], item[1], row}),
                 element);
      });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return result;
}
