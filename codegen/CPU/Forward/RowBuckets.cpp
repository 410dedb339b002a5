//===- RowBuckets.cpp - Rows of tables weighted by probabilities ----------===//

#include "codegen/CPU/Forward/RowBuckets.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Number of the table's tensor among the operands.
static unsigned getTable(const ForwardLaunch &launch, size_t number) {
  pos::WeightedRowsOp op = launch.plan.weightedRows[number];
  return *launch.sites
              .params[cast<BlockArgument>(op.getTable()).getArgNumber()];
}

Index RowBuckets::getEnd(KernelBuilder &kernel, ArgumentBlock &arguments,
                         const ForwardLaunch &launch,
                         const ScratchLayout &layout, size_t count) {
  Index end = layout.getBytes() / 4;
  for (size_t n = 0; n < count; ++n)
    end = kernel.add(end, kernel.mul(arguments.getSize(getTable(launch, n), 0),
                                     launch.countQueries()));
  return end;
}

void RowBuckets::forEach(Index panel, Body body) {
  for (size_t number = 0; number < launch.plan.weightedRows.size(); ++number) {
    Index rows = item.arguments.getSize(getTable(launch, number), 0);
    Index begin = getEnd(kernel, item.arguments, launch, item.layout, number);
    body(number, rows,
         kernel.advance(
             item.memory.getFar(),
             {begin, kernel.mul(panel, kernel.mul(rows, launch.panel))}));
  }
}

void RowBuckets::clear() {
  forEach(0, [&](size_t, Index rows, Value buckets) {
    kernel.clear(buckets,
                 kernel.mul(item.panelCount, kernel.mul(rows, launch.panel)));
  });
}

void RowBuckets::scale(ValueRange alpha) {
  forEach(item.panel, [&](size_t, Index rows, Value buckets) {
    kernel.loop(0, rows, 1, [&](Value row) {
      Value to = kernel.advance(buckets, {kernel.mul(row, launch.panel)});
      for (int64_t v = 0; v < launch.vectors; ++v) {
        int64_t lane = v * kernel.width();
        kernel.storeVector(kernel.mulF(kernel.loadVector(to, {lane}), alpha[v]),
                           to, {lane});
      }
    });
  });
}

void RowBuckets::add(Index keyInBlock, int64_t vector, Value weights) {
  forEach(item.panel, [&](size_t number, Index rows, Value buckets) {
    pos::WeightedRowsOp op = launch.plan.weightedRows[number];
    item.point.setPoint(vector, kernel.add(item.firstKey, keyInBlock), 0);
    Value row =
        callPayload(kernel, op.getBody().front(), {}, item.point).front();
    item.point.addToBuckets(buckets, launch.panel, rows, row, weights,
                            item.at(lanes));
  });
}

void RowBuckets::addToOutput() {
  Value output = item.ofPanel(item.output, launch.outputRows);
  forEach(item.panel, [&](size_t number, Index count, Value buckets) {
    unsigned table = getTable(launch, number);
    int64_t dim = launch.values.get().front().dim; // the first value's
    forParts(kernel, dim, launch.rows, [&](Index column, int64_t rows) {
      SmallVector<TileRow> tileRows;
      for (int64_t row = 0; row < rows; ++row)
        tileRows.push_back(
            {item.arguments.getAddress(table, {0, kernel.add(column, row)})});
      RegisterTile product = item.getTile(tileRows, buckets, count);
      product.rowStep = item.arguments.getStride(table, 0);
      addTile(kernel, product,
              kernel.advance(output, {kernel.mul(column, launch.panel)}),
              launch.panel);
    });
  });
}
