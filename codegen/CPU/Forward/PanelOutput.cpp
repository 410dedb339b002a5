//===- PanelOutput.cpp - The output of a panel of queries -----------------===//

#include "codegen/CPU/Forward/PanelOutput.h"
#include "codegen/CPU/Forward/FewQueries.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void PanelOutput::clear(Index lane) {
  Value output = item.ofPanel(item.output, launch.outputRows, lane);
  kernel.loop(0, launch.outputRows, 1, [&](Value row) {
    kernel.storeVector(kernel.splatF32(0), output,
                       {kernel.mul(row, launch.panel)});
  });
}

void PanelOutput::update(Value values, ValueRange alpha, Index low,
                         Index high) {
  if (launch.areFew)
    return addWeightedRows(item, values, alpha.front(), item.at(alphas), low,
                           high);
  if (launch.isTiled)
    return addTiles(values, low, high);
  Value output = item.ofPanel(item.output, launch.outputRows);
  forParts(
      kernel, launch.valueDim, launch.rows, [&](Index column, int64_t rows) {
        Value to = kernel.advance(output, {kernel.mul(column, launch.panel)});
        KernelBuilder::Values initial;
        for (int64_t number = 0; number < rows * launch.vectors; ++number)
          initial.push_back(
              kernel.mulF(kernel.loadVector(to, {number * kernel.width()}),
                          alpha[number % launch.vectors]));
        Index first = launch.pairs ? kernel.div(low, 2) : low;
        Index count = kernel.sub(high, low);
        Value from = kernel.advance(
            values, {kernel.mul(first, launch.valueWords), column});
        SmallVector<TileRow> tileRows;
        for (int64_t row = 0; row < rows; ++row)
          tileRows.push_back({from, row});
        RegisterTile product =
            item.getTile(tileRows, item.getScores(first),
                         launch.pairs ? kernel.ceilDiv(count, 2) : count);
        product.rowStep = launch.valueWords;
        product.pairs = launch.pairs;
        if (launch.isNear)
          product.alignment = 16;
        storeVectors(kernel, emitTile(kernel, product, initial), to);
      });
}

void PanelOutput::prefetchShare(Index part, Index parts) {
  if (!launch.isTiled)
    return;
  Index words = kernel.ceilDiv(launch.outputRows * launch.panel, parts);
  Index first = kernel.mul(part, words);
  Value output = item.ofPanel(item.output, launch.outputRows);
  kernel.loop(0, words, cacheLine, [&](Value word) {
    kernel.prefetch(output, {first, word}, 1, CacheLevel::First);
  });
}

void PanelOutput::scale(ValueRange alpha) {
  if (!launch.isTiled)
    return;
  Value output = item.ofPanel(item.output, launch.outputRows);
  kernel.loop(0, launch.outputRows, 1, [&](Value row) {
    for (int64_t v = 0; v < launch.vectors; ++v) {
      Value sums = kernel.advance(
          output, {kernel.mul(row, launch.panel), v * kernel.width()});
      kernel.storeVector(kernel.mulF(kernel.loadVector(sums), alpha[v]), sums);
    }
  });
}

/// The product takes whole steps of keys: those beside the range have no
/// weight.
void PanelOutput::addTiles(Value values, Index low, Index high) {
  int64_t width = kernel.width();
  auto [first, end] = UnitSteps(kernel, low, high);
  auto clearWeights = [&](Index begin, Index end) {
    kernel.loop(begin, end, 1, [&](Value pair) {
      for (int64_t term = 0; term < launch.countTerms(); ++term)
        for (int64_t v = 0; v < launch.vectors; ++v)
          kernel.storeVector(
              kernel.splatF32(0),
              item.getScores(pair, term * launch.scoreStride + v * width));
    });
  };
  clearWeights(first, kernel.div(low, 2));
  clearWeights(kernel.ceilDiv(high, 2), end);

  UnitProduct product;
  product.a = kernel.advance(values, {kernel.mul(first, launch.outputRows)});
  product.aStride = MatrixUnit::side;
  product.aStep = launch.outputRows;
  product.b = item.getScores(first);
  product.bStride = launch.panel;
  product.sums = item.ofPanel(item.output, launch.outputRows);
  product.stride = launch.panel;
  product.rows = launch.outputRows;
  product.words = kernel.sub(end, first);
  product.adds = true;
  if (launch.hasTerms())
    product.terms = {launch.getValueTermWords(), launch.scoreStride};
  emitUnitProduct(kernel, product);
}

void PanelOutput::store() {
  if (launch.areFew)
    return storeWeightedRows(item);
  int64_t width = kernel.width();
  kernel.loop(0, item.rowCount, width, [&](Value lane) {
    storeRows(kernel.add(item.firstRow, lane), lane,
              kernel.min(width, kernel.sub(item.rowCount, lane)));
  });
}

/// Stores `count` rows of the output from `row` on, at most a vector of them:
/// those from `lane` on in the panel.
void PanelOutput::storeRows(Index row, Index lane, Index count) {
  int64_t width = kernel.width();
  Value from = item.ofPanel(item.output, launch.outputRows, lane);
  Value inverse = kernel.loadVector(item.ofPanel(item.sum), {lane});
  // A row without keys may have summed anything up: it is replaced, not scaled.
  Value isLive =
      kernel.compareF(arith::CmpFPredicate::UNE, inverse, kernel.splatF32(0));
  auto storeColumns = [&](unsigned output, Index first, Index column,
                          int64_t columns) {
    Value to = item.arguments.getAddress(output, {item.batch, item.head, row});
    Index stride = item.arguments.getStride(output, 2);
    Index sumRow = kernel.add(first, column);
    KernelBuilder::Values rows;
    for (int64_t k = 0; k < width; ++k) {
      Value sums = kernel.loadVector(
          from, {kernel.mul(sumRow, launch.panel), k * launch.panel});
      rows.push_back(kernel.selectF(isLive, kernel.mulF(sums, inverse),
                                    kernel.splatF32(0)));
    }
    rows = kernel.transpose(rows);
    for (int64_t k = 0; k < width; ++k)
      kernel.when(kernel.less(k, count), [&] {
        Value target =
            kernel.advance(to, {kernel.mul(k, stride), column}, launch.element);
        kernel.storePart(kernel.roundTo(rows[k], launch.element), target,
                         columns);
      });
  };
  for (auto [part, output] :
       llvm::zip_equal(launch.values.get(), launch.outputs))
    forParts(kernel, part.dim, width, [&](Index column, int64_t columns) {
      storeColumns(output, part.first, column, columns);
    });
}
