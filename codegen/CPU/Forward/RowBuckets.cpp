//===- RowBuckets.cpp - Rows of tables weighted by probabilities ----------===//

#include "codegen/CPU/Forward/RowBuckets.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Number of the table's tensor among the operands.
static unsigned getTable(const ForwardTask &task, size_t number) {
  pos::WeightedRowsOp op = task.plan.weightedRows[number];
  return *task.sites.params[cast<BlockArgument>(op.getTable()).getArgNumber()];
}

Index RowBuckets::getEnd(KernelBuilder &kernel, ArgumentBlock &arguments,
                         const ForwardTask &task, const ScratchLayout &layout,
                         size_t count) {
  Index end = layout.getBytes() / 4;
  for (size_t n = 0; n < count; ++n)
    end = kernel.add(end, kernel.mul(arguments.getSize(getTable(task, n), 0),
                                     task.countQueries()));
  return end;
}

void RowBuckets::forEach(Index panel, Body body) {
  for (size_t number = 0; number < task.plan.weightedRows.size(); ++number) {
    Index rows = place.arguments.getSize(getTable(task, number), 0);
    Index begin = getEnd(kernel, place.arguments, task, place.layout, number);
    body(number, rows,
         place.at(0, {begin, kernel.mul(panel, kernel.mul(rows, task.panel))}));
  }
}

void RowBuckets::clear() {
  forEach(0, [&](size_t, Index rows, Value buckets) {
    kernel.clear(buckets,
                 kernel.mul(place.panelCount, kernel.mul(rows, task.panel)));
  });
}

void RowBuckets::scale(ValueRange alpha) {
  forEach(place.panel, [&](size_t, Index rows, Value buckets) {
    kernel.loop(0, rows, 1, [&](Value row) {
      Value to = kernel.advance(buckets, {kernel.mul(row, task.panel)});
      for (int64_t v = 0; v < task.vectors; ++v) {
        int64_t lane = v * kernel.width();
        kernel.storeVector(kernel.mulF(kernel.loadVector(to, {lane}), alpha[v]),
                           to, {lane});
      }
    });
  });
}

void RowBuckets::add(Index keyInBlock, int64_t vector, Value weights) {
  forEach(place.panel, [&](size_t number, Index rows, Value buckets) {
    pos::WeightedRowsOp op = task.plan.weightedRows[number];
    place.site.setPoint(vector, kernel.add(place.firstKey, keyInBlock), 0);
    Value row =
        callPayload(kernel, op.getBody().front(), {}, place.site).front();
    place.site.addToBuckets(buckets, task.panel, rows, row, weights,
                            place.at(lanes));
  });
}

void RowBuckets::addToOutput() {
  Value output = place.ofPanel(place.output, task.outputRows);
  forEach(place.panel, [&](size_t number, Index count, Value buckets) {
    unsigned table = getTable(task, number);
    int64_t dim = task.values.get().front().dim; // the first value's
    forParts(kernel, dim, task.rows, [&](Index column, int64_t rows) {
      SmallVector<TileRow> tileRows;
      for (int64_t row = 0; row < rows; ++row)
        tileRows.push_back(
            {place.arguments.getAddress(table, {0, kernel.add(column, row)})});
      RegisterTile product = place.getTile(tileRows, buckets, count);
      product.rowStep = place.arguments.getStride(table, 0);
      addTile(kernel, product,
              kernel.advance(output, {kernel.mul(column, task.panel)}),
              task.panel);
    });
  });
}
