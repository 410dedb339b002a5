//===- ForwardOffsetBand.cpp - Products with a band of rows of offsets ----===//

#include "codegen/CPU/Forward/ForwardOffsetBand.h"
#include "codegen/CPU/Forward/ForwardPacking.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

ForwardOffsetBand::ForwardOffsetBand(ForwardItem &item)
    : item(item), kernel(item.kernel), arguments(item.arguments),
      launch(item.launch), shape(launch.offsetShape) {
  ScratchLayout &layout = item.layout;
  int64_t count = launch.plan.offsetProducts.size();
  size = (launch.keys + launch.panel) * launch.panel;
  queries = layout.reserve(count * shape.row * launch.countQueries());
  products = layout.reserve(count * size);
  cells = layout.reserve(count * launch.rows * launch.panel);
  rows = layout.reserve(count ? kernel.width() * shape.row : 0);
  addend = layout.reserve(count ? shape.row : 0);
  end = layout.reserve(count ? 2 : 0);
  item.point.setOffsetTile(item.at(cells), launch.rows);
}

/// Packs query rows as they entered with what is added to them, transposed, for
/// each of the products: [panels][lanes of a row][panel].
void ForwardOffsetBand::packQueries() {
  int64_t width = kernel.width();
  Value to = item.at(rows), added = item.at(addend);
  for (size_t number = 0; number < launch.plan.offsetProducts.size();
       ++number) {
    std::optional<unsigned> param =
        launch.plan.offsetProducts[number].table.addend;
    if (param)
      copyAddend(kernel, arguments, *launch.sites.params[*param], item.head,
                 shape.dim, shape.row, added);
    Index vectors = kernel.mul(item.panelCount, launch.vectors);
    kernel.loop(0, vectors, 1, [&](Value vector) {
      RowCopy copy;
      copy.tensor = launch.sites.query;
      copy.batch = item.batch;
      copy.head = item.head;
      copy.first = kernel.add(item.firstQuery, kernel.mul(vector, width));
      copy.count = width;
      copy.dim = shape.dim;
      copy.to = to;
      copy.rowWords = shape.row;
      emitRowCopy(kernel, arguments, copy, launch.element);
      if (param)
        addToRows(kernel, added, width, shape.row, to);
      Index panel = kernel.div(vector, launch.vectors);
      Index lane = kernel.mul(kernel.rem(vector, launch.vectors), width);
      Value packed = kernel.advance(getQueries(number, panel), {lane});
      SmallVector<Value> pointers;
      for (int64_t r = 0; r < width; ++r)
        pointers.push_back(kernel.advance(to, {r * shape.row}));
      packTransposed(kernel, pointers, llvm::alignTo(shape.dim, width),
                     launch.panel, packed);
    });
  }
}

Value ForwardOffsetBand::getQueries(size_t number, Index panel) {
  int64_t size = shape.row * launch.panel;
  return item.at(queries,
                 {kernel.mul(panel, size),
                  static_cast<int64_t>(number) * launch.maxPanels * size});
}

void ForwardOffsetBand::enterPanel() {
  if (launch.plan.offsetProducts.empty())
    return;
  Index queries = arguments.getSize(launch.sites.query, 2);
  Index origin = shape.getOrigin(kernel, queries);
  // The entry of the first row of products: that of the panel's last query and
  // the key before the block.
  firstEntry =
      kernel.sub(kernel.add(kernel.sub(item.firstKey, item.firstRow), origin),
                 launch.panel);
  kernel.store(kernel.constantI64(0), item.at(end));
}

void ForwardOffsetBand::emit(Index group) {
  if (launch.plan.offsetProducts.empty())
    return;
  // With groups from the last to the first nothing of the group before is
  // there.
  Index low = group;
  if (!launch.plan.isLeftward())
    low = kernel.max(low, kernel.load(kernel.i64, item.at(end)));
  Index high = kernel.add(group, launch.panel + launch.rows);
  for (size_t number = 0; number < launch.plan.offsetProducts.size();
       ++number) {
    emitEntries(number, low, high);
    emitDiagonals(number, group);
  }
  kernel.store(kernel.value(high), item.at(end));
}

void ForwardOffsetBand::emitEntries(size_t number, Index low, Index high) {
  Value sums = item.at(products + number * size);
  kernel.loop(low, high, launch.rows, [&](Value entry) {
    Value from = arguments.getAddress(
        launch.offsetRows[number], {item.head, kernel.add(firstEntry, entry)});
    SmallVector<TileRow> tileRows;
    for (int64_t r = 0; r < launch.rows; ++r)
      tileRows.push_back({from, r * shape.row});
    RegisterTile tile =
        item.getTile(tileRows, getQueries(number, item.panel), shape.dim);
    Values zeros(launch.rows * launch.vectors, kernel.splatF32(0));
    storeVectors(kernel, emitTile(kernel, tile, zeros),
                 kernel.advance(sums, {kernel.mul(entry, launch.panel)}));
  });
}

void ForwardOffsetBand::emitDiagonals(size_t number, Index group) {
  int64_t width = kernel.width();
  Value sums = item.at(products + number * size);
  Value to = item.at(cells + number * launch.rows * launch.panel);
  for (int64_t v = 0; v < launch.vectors; ++v) {
    // Lane l of key r is in row first + width - 1 + r - l.
    int64_t first = launch.panel - v * width - (width - 1);
    Value from = kernel.advance(
        sums, {kernel.mul(group, launch.panel), first * launch.panel});
    Values shifted;
    for (int64_t m = 0; m < width - 1 + launch.rows; ++m)
      shifted.push_back(
          kernel.loadVector(from, {m * launch.panel + v * width}));
    int64_t known = 0; // rows below have no value any more
    for (int64_t step = width / 2; step > 0; step /= 2) {
      SmallVector<bool> moves;
      for (int64_t lane = 0; lane < width; ++lane)
        moves.push_back((lane & step) != 0);
      Value isMoved = kernel.constant(
          DenseElementsAttr::get(kernel.vi1, ArrayRef<bool>(moves)));
      known += step;
      for (int64_t m = shifted.size() - 1; m >= known; --m)
        shifted[m] = kernel.selectF(isMoved, shifted[m - step], shifted[m]);
    }
    for (int64_t r = 0; r < launch.rows; ++r)
      kernel.storeVector(shifted[width - 1 + r], to,
                         {r * launch.panel + v * width});
  }
}
