//===- Columns.cpp - Columns appended to query and key rows ---------------===//

#include "codegen/Rows/Columns.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

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
    next.batch =
        getTableBatch(kernel, arguments, *table, next.tensor, copy.batch);
    next.head = table->perHead ? copy.head : Index(0);
    next.dim = part.dim;
    next.maps = {};
    next.to =
        kernel.advance(copy.to, {copy.pairs ? part.first / 2 : part.first});
    emitRowCopy(kernel, arguments, next, kernel.f32);
  }
}
