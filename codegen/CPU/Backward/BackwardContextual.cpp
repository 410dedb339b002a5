//===- BackwardContextual.cpp - Contextual places of the backward ---------===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Index BackwardKernel::inScanOrder(Index place, Index count, int64_t step) {
  if (!task.plan.isLeftward())
    return place;
  Index last = kernel.mul(kernel.div(kernel.sub(count, 1), step), step);
  return kernel.sub(last, place);
}

void BackwardKernel::emitSweeps(Index firstHead, Index group) {
  Index rows = arguments.getSize(*task.queryGradient, 3);
  for (unsigned tensor : task.getClearedSums())
    kernel.clear(arguments.getAddress(tensor, {chunk, batch, firstHead}),
                 kernel.mul(group, kernel.mul(arguments.getSize(tensor, 3),
                                              arguments.getSize(tensor, 4))));
  clearOffsets();
  if (task.plan.scans.empty())
    return emitTiles(firstHead, group);
  auto clear = [&](ArrayRef<BackwardScans::State> states) {
    kernel.loop(firstHead, kernel.add(firstHead, group), 1, [&](Value value) {
      site.enterHead(batch, value);
      for (BackwardScans::State state : states)
        site.scans.clear(state, rows);
    });
  };
  using State = BackwardScans::State;
  clear({State::Carry, State::Total, State::Passed});
  unsigned levels = *llvm::max_element(task.plan.scanLevels) + 1;
  for (unsigned level = 0; level < levels; ++level) {
    site.scans.setSweep(BackwardScans::Sweep::Totals, level);
    emitTiles(firstHead, group);
    clear({State::Carry});
    // Scans of lower levels have passed their cotangents on.
    if (level > 0)
      clear({State::Passed});
  }
  site.scans.setSweep(BackwardScans::Sweep::Gradients);
  return emitTiles(firstHead, group);
}

/// A cell, with and without its scans.
void BackwardKernel::emitCells(Index group, Index panel, bool isMasked) {
  if (task.plan.scans.empty())
    return emitCell(group, panel, isMasked);
  Value isSaturated =
      site.scans.emitSaturated(kernel.add(firstQuery, group), shape.rows);
  auto emit = [&](bool saturated) {
    site.scans.setSaturated(saturated);
    emitCell(group, panel, isMasked);
    site.scans.setSaturated(false);
  };
  if (!isSaturated)
    return emit(false);
  kernel.when(
      isSaturated,
      [&] {
        if (site.scans.getSweep() != BackwardScans::Sweep::Totals)
          emit(true);
      },
      [&] { emit(false); });
}

/// What weighted rows add to dP, and the sums of P per row of their tables.
Value BackwardKernel::addWeightedRows(Value gradient, Value p) {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    pos::WeightedRowsOp op = task.plan.weightedRows[number];
    Values row = callPayload(kernel, op.getBody().front(), {}, site);
    auto table = cast<BlockArgument>(op.getTable());
    Index rows = arguments.getSize(*task.sites.params[table.getArgNumber()], 0);
    Value product = kernel.broadcast(site.products.readQueryProducts(
        task.sites.outputProducts[number], rows, row.front()));
    // A hidden key may have any row.
    Value isSeen =
        kernel.compareF(arith::CmpFPredicate::UNE, p, kernel.splatF32(0.0));
    gradient = kernel.addF(
        gradient, kernel.selectF(isSeen, product, kernel.splatF32(0.0)));
    if (task.bucketGradients[number] &&
        site.scans.getSweep() != BackwardScans::Sweep::Totals)
      site.products.addToQueryProducts(*task.bucketGradients[number], rows,
                                       row.front(), p);
  }
  return gradient;
}
