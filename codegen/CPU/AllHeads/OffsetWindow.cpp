//===- OffsetWindow.cpp - The offsets of one block, staged ----------------===//

#include "codegen/CPU/AllHeads/OffsetWindow.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

OffsetWindow::OffsetWindow(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const KernelPlan &plan, const SiteOperands &operands,
                           int64_t length, ScratchMemory &scratch)
    : kernel(kernel), arguments(arguments), operands(operands), length(length) {
  constexpr int64_t line = 16;
  stride = (llvm::divideCeil(length, line) | 1) * line;
  int64_t rows = 0;
  if (!operands.offsetRange)
    for (auto [number, hoisted] : llvm::enumerate(plan.hoisted)) {
      Type element = getElementTypeOrSelf(hoisted.op->getResult(0).getType());
      if (hoisted.form != HoistForm::OffsetTable || !element.isF32() ||
          hoisted.operand != pos::RowOperand::query)
        continue;
      int64_t count = countRowsOfPoint(hoisted, plan.scoreHeads);
      tables.push_back({&hoisted, static_cast<unsigned>(number), rows, count});
      rows += count;
    }
  memory = scratch.at(kernel, scratch.layout.reserve(rows * stride, "offsets"));
}

const OffsetWindow::Rows *OffsetWindow::find(pos::HoistOp hoist) const {
  for (const Rows &rows : tables)
    if (rows.hoisted->op == hoist)
      return &rows;
  return nullptr;
}

Value OffsetWindow::getEntry(pos::HoistOp hoist, Index row, Index entry) {
  const Rows *rows = find(hoist);
  assert(rows && "a table whose offsets are staged");
  return kernel.advance(memory,
                        {entry, kernel.mul(row, stride), rows->first * stride});
}

void OffsetWindow::forVectors(
    function_ref<void(const Rows &, Index, Index, Value)> body) {
  for (const Rows &rows : tables)
    kernel.loop(0, rows.count, 1, [&](Value row) {
      Value start = kernel.advance(
          memory, {kernel.mul(row, stride), rows.first * stride});
      kernel.loop(0, length, kernel.width(), [&](Value entry) {
        body(rows, row, entry, kernel.advance(start, {entry}));
      });
    });
}

void OffsetWindow::load(Index batch, Index first) {
  forVectors([&](const Rows &rows, Index row, Index entry, Value inWindow) {
    unsigned table = *operands.tables[rows.number];
    Index element = rows.hoisted->perBatch ? batch : Index(0);
    Value from =
        arguments.getAddress(table, {element, row, kernel.add(first, entry)});
    kernel.storeVector(kernel.loadVector(from), inWindow);
  });
}

void OffsetWindow::addTo(ArrayRef<PartialSum> sums, Index chunk, Index batch,
                         Index first) {
  forVectors([&](const Rows &rows, Index row, Index entry, Value inWindow) {
    if (!sums[rows.number])
      return;
    Value to = arguments.getAddress(
        *sums[rows.number], {chunk, batch, row, kernel.add(first, entry)});
    kernel.storeVector(
        kernel.addF(kernel.loadVector(to), kernel.loadVector(inWindow)), to);
  });
}

void OffsetWindow::clear() {
  forVectors([&](const Rows &, Index, Index, Value inWindow) {
    kernel.storeVector(kernel.splatF32(0), inWindow);
  });
}
