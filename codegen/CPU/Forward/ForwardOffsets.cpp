//===- ForwardOffsets.cpp - Rows of offsets in a forward item -------------===//
//
// For a panel of queries the products with the rows of neighbouring offsets are
// [entries][panel]: a group of keys needs as many entries as it has keys and
// the panel has queries, all but its keys of which the group before it needed
// as well. So each is computed once per block of keys, where a group is seen.
//
// Query q of the panel and key r of the group meet at an entry that is less by
// one for the next query: the products are read along diagonals. Lane by lane
// that is a shift of rows, done in as many selections as a lane has bits.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Forward/ForwardItem.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Packs query rows as they entered with what is added to them, transposed, for
/// each of the products: [panels][lanes of a row][panel].
void ForwardItem::packOffsetQueries() {
  const OffsetShape &shape = task.offsetShape;
  int64_t width = kernel.width();
  Value rows = at(scratch.offsetRows), addend = at(scratch.offsetAddend);
  for (size_t number = 0; number < task.plan.offsetProducts.size(); ++number) {
    std::optional<unsigned> param =
        task.plan.offsetProducts[number].table.addend;
    if (param)
      copyAddend(kernel, arguments, *task.sites.params[*param], head, shape.dim,
                 shape.row, addend);
    Index vectors = kernel.mul(panelCount, task.vectors);
    kernel.loop(0, vectors, 1, [&](Value vector) {
      RowCopy copy;
      copy.tensor = task.sites.query;
      copy.batch = batch;
      copy.head = head;
      copy.first = kernel.add(firstQuery, kernel.mul(vector, width));
      copy.count = width;
      copy.dim = shape.dim;
      copy.to = rows;
      copy.rowWords = shape.row;
      emitRowCopy(kernel, arguments, copy, task.element);
      if (param)
        addToRows(kernel, addend, width, shape.row, rows);
      Index panel = kernel.div(vector, task.vectors);
      Index lane = kernel.mul(kernel.rem(vector, task.vectors), width);
      Value to = kernel.advance(getOffsetQueries(number, panel), {lane});
      int64_t padded = llvm::alignTo(shape.dim, width);
      kernel.loop(0, padded, width, [&](Value first) {
        Values square;
        for (int64_t r = 0; r < width; ++r)
          square.push_back(kernel.loadVector(rows, {first, r * shape.row}));
        square = kernel.transpose(square);
        for (int64_t k = 0; k < width; ++k)
          kernel.storeVector(square[k], to,
                             {kernel.mul(first, task.panel), k * task.panel});
      });
    });
  }
}

Value ForwardItem::getOffsetQueries(size_t number, Index panel) {
  int64_t size = task.offsetShape.row * task.panel;
  return at(scratch.offsetQueries,
            {kernel.mul(panel, size),
             static_cast<int64_t>(number) * task.maxPanels * size});
}

void ForwardItem::enterOffsetPanel(Index panel, Index firstRow) {
  if (task.plan.offsetProducts.empty())
    return;
  Index queries = arguments.getSize(task.sites.query, 2);
  Index origin = task.offsetShape.getOrigin(kernel, queries);
  offsetPanel = panel;
  // The entry of the first row of products: that of the panel's last query and
  // the key before the block.
  firstEntry = kernel.sub(kernel.add(kernel.sub(firstKey, firstRow), origin),
                          task.panel);
  kernel.store(kernel.constantI64(0), getOffsetEnd());
}

Value ForwardItem::getOffsetEnd() { return at(scratch.offsetEnd); }

/// The values of the products at the keys of a group, where payloads find them.
void ForwardItem::emitOffsetProducts(Index group) {
  if (task.plan.offsetProducts.empty())
    return;
  // With groups from the last to the first nothing of the group before is
  // there.
  Index low = group;
  if (!task.plan.isLeftward())
    low = kernel.max(low, kernel.load(kernel.i64, getOffsetEnd()));
  Index high = kernel.add(group, task.panel + task.rows);
  for (size_t number = 0; number < task.plan.offsetProducts.size(); ++number) {
    emitOffsetEntries(number, low, high);
    emitOffsetDiagonals(number, group);
  }
  kernel.store(kernel.value(high), getOffsetEnd());
}

void ForwardItem::emitOffsetEntries(size_t number, Index low, Index high) {
  const OffsetShape &shape = task.offsetShape;
  int64_t width = kernel.width();
  Value products = at(scratch.offsetProducts + number * scratch.offsetSize);
  kernel.loop(low, high, task.rows, [&](Value entry) {
    Value from = arguments.getAddress(task.offsetRows[number],
                                      {head, kernel.add(firstEntry, entry)});
    SmallVector<TileRow> rows;
    for (int64_t r = 0; r < task.rows; ++r)
      rows.push_back({from, r * shape.row});
    RegisterTile tile;
    tile.rows = rows;
    tile.base = getOffsetQueries(number, offsetPanel);
    tile.vectorStep = task.panel;
    tile.vectors = task.vectors;
    tile.count = shape.dim;
    Values sums = emitTile(
        kernel, tile, Values(task.rows * task.vectors, kernel.splatF32(0.0)));
    Value to = kernel.advance(products, {kernel.mul(entry, task.panel)});
    for (auto [place, sum] : llvm::enumerate(sums))
      kernel.storeVector(sum, to, {static_cast<int64_t>(place) * width});
  });
}

void ForwardItem::emitOffsetDiagonals(size_t number, Index group) {
  int64_t width = kernel.width();
  Value products = at(scratch.offsetProducts + number * scratch.offsetSize);
  Value cells = at(scratch.offsetCells + number * task.rows * task.panel);
  for (int64_t v = 0; v < task.vectors; ++v) {
    // Lane l of key r is in row first + width - 1 + r - l.
    int64_t first = task.panel - v * width - (width - 1);
    Value from = kernel.advance(
        products, {kernel.mul(group, task.panel), first * task.panel});
    Values rows;
    for (int64_t m = 0; m < width - 1 + task.rows; ++m)
      rows.push_back(kernel.loadVector(from, {m * task.panel + v * width}));
    int64_t known = 0; // rows below have no value any more
    for (int64_t step = width / 2; step > 0; step /= 2) {
      SmallVector<bool> moves;
      for (int64_t lane = 0; lane < width; ++lane)
        moves.push_back((lane & step) != 0);
      Value isMoved = kernel.constant(
          DenseElementsAttr::get(kernel.vi1, ArrayRef<bool>(moves)));
      known += step;
      for (int64_t m = rows.size() - 1; m >= known; --m)
        rows[m] = kernel.selectF(isMoved, rows[m - step], rows[m]);
    }
    for (int64_t r = 0; r < task.rows; ++r)
      kernel.storeVector(rows[width - 1 + r], cells,
                         {r * task.panel + v * width});
  }
}
