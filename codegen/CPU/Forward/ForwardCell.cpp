//===- ForwardCell.cpp - The scores of a register tile --------------------===//

#include "codegen/CPU/Forward/ForwardCell.h"
#include "codegen/CPU/Forward/FewQueries.h"
#include "codegen/CPU/Forward/OnlineSoftmax.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

ForwardCell::ForwardCell(ForwardItem &item, ScanSweep &sweep)
    : item(item), kernel(item.kernel), launch(item.launch), point(item.point),
      sweep(sweep),
      cells(kernel, item.arguments, launch.plan, launch.sites,
            item.at(item.layout.reserve(getCellHoists(launch.plan).size() *
                                            launch.rows * launch.panel,
                                        "values of offsets")),
            launch.rows, launch.vectors),
      hinges(kernel, item.arguments, launch.plan, launch.sites,
             item.at(item.layout.reserve(
                 PiecewiseLinearTile::countWords(launch.plan,
                                                 launch.rows * launch.panel),
                 "functions of hinges")),
             launch.rows, launch.vectors, /*hasGradients=*/false),
      square(
          item.layout.reserve(launch.areFew ? launch.rows * launch.panel : 0)) {
  point.setCells(&cells);
  point.setHinges(&hinges);
}

void ForwardCell::hide(Index group) {
  Values hidden(launch.rows * launch.vectors, kernel.splatF32(hiddenScore));
  storeVectors(kernel, hidden, item.getScores(group));
}

Values codegen::emitProducts(const ForwardItem &item, ArrayRef<TileRow> keys,
                             Value query) {
  const ForwardLaunch &launch = item.launch;
  RegisterTile product = item.getTile(keys, query, launch.queryWords);
  product.pairs = launch.pairs;
  if (launch.isNear)
    product.alignment = 16;
  Values zeros(launch.rows * launch.vectors, item.kernel.splatF32(0));
  return emitTile(item.kernel, product, zeros);
}

void codegen::multiplyBlock(const ForwardItem &item, Value keys, Value query) {
  const ForwardLaunch &launch = item.launch;
  UnitProduct product;
  int64_t words = launch.getTiledRowWords();
  product.a = keys;
  product.aStride = words;
  product.b = query;
  product.bStride = launch.panel;
  product.sums = item.getScores(0);
  product.stride = launch.panel;
  product.rows = item.keyCount;
  product.words = words;
  if (launch.hasTerms())
    product.terms = {launch.keys * words, words * launch.panel};
  emitUnitProduct(item.kernel, product);
}

/// The products of a group of keys, in registers.
Values ForwardCell::getProducts(Index group, Value keys) {
  if (launch.isTiled) {
    Values products;
    for (int64_t number = 0; number < launch.rows * launch.vectors; ++number)
      products.push_back(
          kernel.loadVector(item.getScores(group), {number * kernel.width()}));
    return products;
  }
  Value first = kernel.advance(keys, {kernel.mul(group, launch.keyWords)});
  return launch.areFew
             ? emitDots(item, first, query, item.at(square))
             : emitProducts(item,
                            getTileRows(first, launch.rows, launch.keyWords),
                            query);
}

Values ForwardCell::emit(Index group, Value keys, ValueRange maxima,
                         const TileClass &tile) {
  // Before the products, which then stay in registers until they are scores.
  auto moveTo = [&](Index row, Index vector) {
    point.setPoint(vector, kernel.add(kernel.add(item.firstKey, group), row),
                   row);
  };
  cells.fill(point, moveTo);
  hinges.fill(point, moveTo);
  Values products = getProducts(group, keys);
  Value isWhole = kernel.compare(arith::CmpIPredicate::sle,
                                 kernel.add(group, launch.rows), item.keyCount);
  if (launch.plan.mask)
    isWhole = tile.certain ? kernel.both(isWhole, tile.certain)
                           : kernel.constantI1(false);
  auto finish = [&](bool isMasked) {
    return sweep.run(maxima.getTypes(), [&] {
      return emitScores(products, group, isMasked, maxima);
    });
  };
  return kernel.choose(
      isWhole, maxima.getTypes(), [&] { return finish(false); },
      [&] { return finish(true); });
}

Values ForwardCell::emitScores(ValueRange products, Index group, bool isMasked,
                               ValueRange maxima) {
  Value to = item.getScores(group);
  SmallVector<Values> columns(launch.vectors);
  Values stored(launch.rows * launch.vectors);
  for (int64_t step = 0; step < launch.rows; ++step) {
    int64_t row = launch.plan.isLeftward() ? launch.rows - 1 - step : step;
    for (int64_t v = 0; v < launch.vectors; ++v) {
      int64_t number = row * launch.vectors + v;
      Value score = emitScore(products[number], group, row, v, isMasked);
      if (launch.isNear)
        stored[number] = score;
      else if (!launch.isTiled || score != products[number])
        kernel.storeVector(score, to, {number * kernel.width()});
      columns[v].push_back(score);
    }
  }
  // A store keeps loads of later rows waiting.
  if (launch.isNear)
    storeVectors(kernel, stored, to);
  Values next;
  for (auto [scores, maximum] : llvm::zip_equal(columns, maxima)) {
    scores.push_back(maximum);
    next.push_back(emitMaximum(kernel, scores));
  }
  return next;
}

/// The score of a product, of row `row` of a group.
Value ForwardCell::emitScore(Value product, Index group, int64_t row,
                             int64_t vector, bool isMasked) {
  Index keyInBlock = kernel.add(group, row);
  point.setPoint(vector, kernel.add(item.firstKey, keyInBlock), row);
  Value visible; // which queries of the vector see the key
  if (isMasked)
    visible = kernel.broadcast(kernel.less(keyInBlock, item.keyCount));
  if (pos::MaskOp op = launch.plan.mask; op && isMasked) {
    Value isSeen = callPayload(kernel, op.getBody().front(), {}, point).front();
    visible = kernel.both(kernel.broadcast(isSeen), visible);
  }
  point.scans.setVisible(visible);
  auto emitPayloadAt = [&](Value argument) {
    pos::ScoreOp op = launch.plan.score;
    return callPayload(kernel, op.getBody().front(), argument, point).front();
  };
  ScoreForm::PayloadFunction payload;
  if (launch.plan.score)
    payload = emitPayloadAt;
  Value score = item.form.emitScore(kernel, product, payload);
  return visible ? kernel.selectF(visible, score, kernel.splatF32(hiddenScore))
                 : score;
}
