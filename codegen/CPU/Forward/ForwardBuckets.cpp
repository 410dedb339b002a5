//===- ForwardBuckets.cpp - Rows of tables weighted by probabilities ------===//
//
// `pos.weighted_rows`: the weights of a query's keys are summed per row of the
// table, in buckets that are rescaled with the softmax; the rows are added to
// the output once, weighted by the buckets.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Forward/ForwardItem.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Number of the table's tensor among the operands.
static unsigned getTable(const ForwardTask &task, size_t number) {
  pos::WeightedRowsOp op = task.plan.weightedRows[number];
  return *task.sites.params[cast<BlockArgument>(op.getTable()).getArgNumber()];
}

Index ForwardScratch::getBuckets(KernelBuilder &kernel,
                                 ArgumentBlock &arguments,
                                 const ForwardTask &task, size_t number) const {
  Index place = words;
  for (size_t n = 0; n < number; ++n)
    place =
        kernel.add(place, kernel.mul(arguments.getSize(getTable(task, n), 0),
                                     task.maxPanels * task.panel));
  return place;
}

Value ForwardItem::getBuckets(size_t number, Index panel) {
  Index rows = arguments.getSize(getTable(task, number), 0);
  return at(0, {scratch.getBuckets(kernel, arguments, task, number),
                kernel.mul(panel, kernel.mul(rows, task.panel))});
}

/// buckets *= alpha, for a new running maximum.
void ForwardItem::scaleBuckets(Index panel, ValueRange alpha) {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    Value buckets = getBuckets(number, panel);
    Index rows = arguments.getSize(getTable(task, number), 0);
    kernel.loop(0, rows, 1, [&](Value row) {
      Value to = kernel.advance(buckets, {kernel.mul(row, task.panel)});
      for (int64_t v = 0; v < task.vectors; ++v) {
        int64_t lane = v * kernel.width();
        kernel.storeVector(kernel.mulF(kernel.loadVector(to, {lane}), alpha[v]),
                           to, {lane});
      }
    });
  }
}

/// Clears the buckets of all panels of the item.
void ForwardItem::clearBuckets() {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    Index rows = arguments.getSize(getTable(task, number), 0);
    Value buckets = getBuckets(number, 0);
    Index count = kernel.mul(panelCount, kernel.mul(rows, task.panel));
    kernel.loop(0, count, kernel.width(), [&](Value lane) {
      kernel.storeVector(kernel.splatF32(0), buckets, {lane});
    });
  }
}

void ForwardItem::addToBuckets(Index panel, Index keyInBlock, int64_t vector,
                               Value weights) {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    pos::WeightedRowsOp op = task.plan.weightedRows[number];
    site.setPoint(vector, kernel.add(firstKey, keyInBlock), 0);
    Values row = callPayload(kernel, op.getBody().front(), {}, site);
    site.addToBuckets(getBuckets(number, panel), task.panel,
                      arguments.getSize(getTable(task, number), 0), row.front(),
                      weights, at(scratch.lanes));
  }
}

/// O^T += table^T times buckets.
void ForwardItem::addWeightedRows(Index panel) {
  int64_t width = kernel.width();
  Value output =
      at(scratch.output, {kernel.mul(panel, task.outputRows * task.panel)});
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    unsigned table = getTable(task, number);
    Value buckets = getBuckets(number, panel);
    auto addColumns = [&](Index column, int64_t rows) {
      SmallVector<TileRow> tileRows;
      for (int64_t row = 0; row < rows; ++row)
        tileRows.push_back(
            {arguments.getAddress(table, {0, kernel.add(column, row)})});
      Value to = kernel.advance(output, {kernel.mul(column, task.panel)});
      Values initial;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t v = 0; v < task.vectors; ++v)
          initial.push_back(
              kernel.loadVector(to, {row * task.panel + v * width}));
      RegisterTile product;
      product.rows = tileRows;
      product.rowStep = arguments.getStride(table, 0);
      product.base = buckets;
      product.vectorStep = task.panel;
      product.vectors = task.vectors;
      product.count = arguments.getSize(table, 0);
      Values sums = emitTile(kernel, product, initial);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t v = 0; v < task.vectors; ++v)
          kernel.storeVector(sums[row * task.vectors + v], to,
                             {row * task.panel + v * width});
    };
    int64_t dim = task.values.get().front().dim; // the first value's
    int64_t whole = dim / task.rows * task.rows;
    if (whole)
      kernel.loop(0, whole, task.rows,
                  [&](Value column) { addColumns(column, task.rows); });
    if (whole < dim)
      addColumns(whole, dim - whole);
  }
}
