//===- ForwardOffsetBand.cpp - Products with a band of rows of offsets ----===//

#include "codegen/CPU/Forward/ForwardOffsetBand.h"
#include "codegen/CPU/Forward/OperandPacking.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

ForwardOffsetBand::ForwardOffsetBand(ForwardPlace &place)
    : place(place), kernel(place.kernel), arguments(place.arguments),
      task(place.task), shape(task.offsetShape) {
  ScratchLayout &layout = place.layout;
  int64_t count = task.plan.offsetProducts.size();
  size = (task.keys + task.panel) * task.panel;
  queries = layout.reserve(count * shape.row * task.countQueries());
  products = layout.reserve(count * size);
  cells = layout.reserve(count * task.rows * task.panel);
  rows = layout.reserve(count ? kernel.width() * shape.row : 0);
  addend = layout.reserve(count ? shape.row : 0);
  end = layout.reserve(count ? 2 : 0);
  place.site.setOffsetCells(place.at(cells), task.rows);
}

/// Packs query rows as they entered with what is added to them, transposed, for
/// each of the products: [panels][lanes of a row][panel].
void ForwardOffsetBand::packQueries() {
  int64_t width = kernel.width();
  Value to = place.at(rows), added = place.at(addend);
  for (size_t number = 0; number < task.plan.offsetProducts.size(); ++number) {
    std::optional<unsigned> param =
        task.plan.offsetProducts[number].table.addend;
    if (param)
      copyAddend(kernel, arguments, *task.sites.params[*param], place.head,
                 shape.dim, shape.row, added);
    Index vectors = kernel.mul(place.panelCount, task.vectors);
    kernel.loop(0, vectors, 1, [&](Value vector) {
      RowCopy copy;
      copy.tensor = task.sites.query;
      copy.batch = place.batch;
      copy.head = place.head;
      copy.first = kernel.add(place.firstQuery, kernel.mul(vector, width));
      copy.count = width;
      copy.dim = shape.dim;
      copy.to = to;
      copy.rowWords = shape.row;
      emitRowCopy(kernel, arguments, copy, task.element);
      if (param)
        addToRows(kernel, added, width, shape.row, to);
      Index panel = kernel.div(vector, task.vectors);
      Index lane = kernel.mul(kernel.rem(vector, task.vectors), width);
      Value packed = kernel.advance(getQueries(number, panel), {lane});
      SmallVector<Value> pointers;
      for (int64_t r = 0; r < width; ++r)
        pointers.push_back(kernel.advance(to, {r * shape.row}));
      packTransposed(kernel, pointers, llvm::alignTo(shape.dim, width),
                     task.panel, packed);
    });
  }
}

Value ForwardOffsetBand::getQueries(size_t number, Index panel) {
  int64_t size = shape.row * task.panel;
  return place.at(queries,
                  {kernel.mul(panel, size),
                   static_cast<int64_t>(number) * task.maxPanels * size});
}

void ForwardOffsetBand::enterPanel() {
  if (task.plan.offsetProducts.empty())
    return;
  Index queries = arguments.getSize(task.sites.query, 2);
  Index origin = shape.getOrigin(kernel, queries);
  // The entry of the first row of products: that of the panel's last query and
  // the key before the block.
  firstEntry =
      kernel.sub(kernel.add(kernel.sub(place.firstKey, place.firstRow), origin),
                 task.panel);
  kernel.store(kernel.constantI64(0), place.at(end));
}

void ForwardOffsetBand::emit(Index group) {
  if (task.plan.offsetProducts.empty())
    return;
  // With groups from the last to the first nothing of the group before is
  // there.
  Index low = group;
  if (!task.plan.isLeftward())
    low = kernel.max(low, kernel.load(kernel.i64, place.at(end)));
  Index high = kernel.add(group, task.panel + task.rows);
  for (size_t number = 0; number < task.plan.offsetProducts.size(); ++number) {
    emitEntries(number, low, high);
    emitDiagonals(number, group);
  }
  kernel.store(kernel.value(high), place.at(end));
}

void ForwardOffsetBand::emitEntries(size_t number, Index low, Index high) {
  Value sums = place.at(products + number * size);
  kernel.loop(low, high, task.rows, [&](Value entry) {
    Value from = arguments.getAddress(
        task.offsetRows[number], {place.head, kernel.add(firstEntry, entry)});
    SmallVector<TileRow> tileRows;
    for (int64_t r = 0; r < task.rows; ++r)
      tileRows.push_back({from, r * shape.row});
    RegisterTile tile =
        place.getTile(tileRows, getQueries(number, place.panel), shape.dim);
    Values zeros(task.rows * task.vectors, kernel.splatF32(0));
    storeVectors(kernel, emitTile(kernel, tile, zeros),
                 kernel.advance(sums, {kernel.mul(entry, task.panel)}));
  });
}

void ForwardOffsetBand::emitDiagonals(size_t number, Index group) {
  int64_t width = kernel.width();
  Value sums = place.at(products + number * size);
  Value to = place.at(cells + number * task.rows * task.panel);
  for (int64_t v = 0; v < task.vectors; ++v) {
    // Lane l of key r is in row first + width - 1 + r - l.
    int64_t first = task.panel - v * width - (width - 1);
    Value from = kernel.advance(
        sums, {kernel.mul(group, task.panel), first * task.panel});
    Values shifted;
    for (int64_t m = 0; m < width - 1 + task.rows; ++m)
      shifted.push_back(kernel.loadVector(from, {m * task.panel + v * width}));
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
    for (int64_t r = 0; r < task.rows; ++r)
      kernel.storeVector(shifted[width - 1 + r], to,
                         {r * task.panel + v * width});
  }
}
