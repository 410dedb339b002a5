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
  constexpr StringLiteral band = "products with rows of offsets";
  for (auto [number, product] : llvm::enumerate(launch.plan.offsetProducts)) {
    BandProduct next{number, 0, 0, 0, 0, 0, product.table.addend};
    if (product.table.side == pos::Side::query) {
      next.rows = layout.reserve(shape.row * launch.countQueries(), band);
      next.entries =
          layout.reserve((launch.keys + launch.panel) * launch.panel, band);
      next.cells = layout.reserve(launch.rows * launch.panel);
      next.end = layout.reserve(2);
      next.atEnds =
          layout.reserve(product.isClipped ? 2 * launch.countQueries() : 0);
      ofQueries.push_back(next);
    } else {
      next.rows = layout.reserve(shape.row * launch.keys, band);
      next.entries =
          layout.reserve(launch.rows * (launch.vectors + 1) * kernel.width());
      next.atEnds = layout.reserve(
          product.isClipped ? 2 * launch.keys * kernel.width() : 0);
      ofKeys.push_back(next);
    }
  }
  rows =
      layout.reserve(ofQueries.empty() ? 0 : kernel.width() * shape.row, band);
  addend = layout.reserve(launch.plan.offsetProducts.empty() ? 0 : shape.row);
}

//===----------------------------------------------------------------------===//
// Rows of the query and of the key
//===----------------------------------------------------------------------===//

void ForwardOffsetBand::packQueries() {
  for (const BandProduct &product : ofQueries) {
    packQueries(product);
    if (getEnds(product))
      emitQueryEnds(product);
  }
}

void ForwardOffsetBand::packKeys() {
  for (const BandProduct &product : ofKeys) {
    packKeys(product);
    if (getEnds(product))
      emitKeyEnds(product);
  }
}

/// Packs query rows as they entered with what is added to them, transposed:
/// [panels][lanes of a row][panel].
void ForwardOffsetBand::packQueries(const BandProduct &product) {
  int64_t width = kernel.width();
  Value to = item.at(rows), added = item.at(addend);
  if (product.addend)
    copyAddend(kernel, arguments, *launch.sites.params[*product.addend],
               item.head, shape.dim, shape.row, added);
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
    if (product.addend)
      addToRows(kernel, added, width, shape.dim, shape.row, to);
    Index panel = kernel.div(vector, launch.vectors);
    Index lane = kernel.mul(kernel.rem(vector, launch.vectors), width);
    Value packed = kernel.advance(getPanel(product, panel).packed, {lane});
    SmallVector<Value> pointers;
    for (int64_t r = 0; r < width; ++r)
      pointers.push_back(kernel.advance(to, {r * shape.row}));
    packTransposed(kernel, pointers, llvm::alignTo(shape.dim, width),
                   launch.panel, packed);
  });
}

/// Copies the key rows of the block as they entered, with what is added.
void ForwardOffsetBand::packKeys(const BandProduct &product) {
  RowCopy copy;
  copy.tensor = launch.sites.key;
  copy.batch = item.batch;
  copy.head = item.kvHead;
  copy.first = item.firstKey;
  copy.count = kernel.roundUp(item.keyCount, launch.rows);
  copy.dim = shape.dim;
  copy.to = item.at(product.rows);
  copy.rowWords = shape.row;
  copy.atOnce = launch.isNear ? launch.rows : 1;
  emitRowCopy(kernel, arguments, copy, launch.element);
  if (!product.addend)
    return;
  Value added = item.at(addend);
  copyAddend(kernel, arguments, *launch.sites.params[*product.addend],
             item.kvHead, shape.dim, shape.row, added);
  addToRows(kernel, added, copy.count, shape.dim, shape.row, copy.to);
}

OffsetPanel ForwardOffsetBand::getPanel(const BandProduct &product,
                                        Index panel) {
  Value packed =
      item.at(product.rows, {kernel.mul(panel, shape.row * launch.panel)});
  return {shape, launch.rows, launch.vectors, packed};
}

//===----------------------------------------------------------------------===//
// Products with the rows of ends
//===----------------------------------------------------------------------===//

std::optional<OffsetEnds>
ForwardOffsetBand::getEnds(const BandProduct &product) {
  std::optional<unsigned> ends = launch.offsetEnds[product.number];
  if (!ends)
    return std::nullopt;
  return OffsetEnds::load(kernel, arguments, *ends);
}

/// The last of the entries, or of their vectors: dim `dim` of the rows.
Index ForwardOffsetBand::getLastEntry(const BandProduct &product,
                                      unsigned dim) {
  return kernel.sub(arguments.getSize(launch.offsetRows[product.number], dim),
                    1);
}

void ForwardOffsetBand::emitQueryEnds(const BandProduct &product) {
  kernel.loop(0, item.panelCount, 1, [&](Value panel) {
    for (int64_t end = 0; end < 2; ++end) {
      Index entry = end ? getLastEntry(product, 1) : Index(0);
      SmallVector<TileRow> rows{{arguments.getAddress(
          launch.offsetRows[product.number], {item.head, entry})}};
      RegisterTile tile =
          item.getTile(rows, getPanel(product, panel).packed, shape.dim);
      Values zeros(launch.vectors, kernel.splatF32(0.0));
      storeVectors(kernel, emitTile(kernel, tile, zeros),
                   item.at(product.atEnds, {kernel.mul(panel, 2 * launch.panel),
                                            end * launch.panel}));
    }
  });
}

/// Where the block reaches as far as an end.
void ForwardOffsetBand::emitKeyEnds(const BandProduct &product) {
  int64_t width = kernel.width();
  OffsetEnds ends = *getEnds(product);
  // Between the entries of the last key and the item's first query, and of the
  // first key and its last query.
  Index least = getWindow(
      kernel.sub(kernel.roundUp(item.keyCount, launch.rows), launch.rows),
      item.firstQuery);
  Index greatest = kernel.add(
      getWindow(0, item.firstQuery),
      kernel.add(kernel.mul(item.panelCount, launch.panel), launch.rows));
  for (int64_t end = 0; end < 2; ++end) {
    Value isReached =
        end ? ends.areHigh(kernel, greatest) : ends.areLow(kernel, least);
    Index vector = end ? getLastEntry(product, 1) : Index(0);
    Value to = item.at(product.atEnds + end * launch.keys * width);
    kernel.when(isReached, [&] {
      kernel.loop(0, item.keyCount, launch.rows, [&](Value key) {
        Value from = item.at(product.rows, {kernel.mul(key, shape.row)});
        SmallVector<TileRow> rows = getTileRows(from, launch.rows, shape.row);
        RegisterTile tile;
        tile.rows = rows;
        tile.base = arguments.getAddress(launch.offsetRows[product.number],
                                         {item.kvHead, vector});
        tile.vectorStep = width;
        tile.vectors = 1;
        tile.count = shape.dim;
        storeVectors(
            kernel,
            emitTile(kernel, tile, Values(launch.rows, kernel.splatF32(0.0))),
            kernel.advance(to, {kernel.mul(key, width)}));
      });
    });
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void ForwardOffsetBand::enterPanel() {
  if (ofQueries.empty())
    return;
  Index queries = arguments.getSize(launch.sites.query, 2);
  Index origin = shape.getOrigin(kernel, queries);
  // The entry of the first row of products: that of the panel's last query and
  // the key before the block.
  firstEntry =
      kernel.sub(kernel.add(kernel.sub(item.firstKey, item.firstRow), origin),
                 launch.panel);
  for (const BandProduct &product : ofQueries)
    kernel.store(kernel.constantI64(0), item.at(product.end));
}

void ForwardOffsetBand::emit(Index group) {
  SmallVector<BandCell> found(launch.plan.offsetProducts.size());
  for (const BandProduct &product : ofQueries)
    found[product.number] = emitBand(product, group);
  for (const BandProduct &product : ofKeys)
    found[product.number] = emitWindow(product, group);
  item.point.setBandCells(found);
}

/// Products of the panel's queries at a group of keys.
BandCell ForwardOffsetBand::emitBand(const BandProduct &product, Index group) {
  OffsetPanel panel = getPanel(product, item.panel);
  Value cells = item.at(product.cells), endAt = item.at(product.end);
  Index high = kernel.add(group, panel.countEntries());
  auto emitEntries = [&] {
    // With groups from the last to the first nothing of the group before is
    // there.
    Index low = group;
    if (!launch.plan.isLeftward())
      low = kernel.max(low, kernel.load(kernel.i64, endAt));
    Value from = arguments.getAddress(launch.offsetRows[product.number],
                                      {item.head, firstEntry});
    Value entries = item.at(product.entries);
    panel.emitEntries(kernel, from, low, high, entries);
    panel.emitDiagonals(
        kernel, kernel.advance(entries, {kernel.mul(group, launch.panel)}),
        cells);
    kernel.store(kernel.value(high), endAt);
  };
  std::optional<OffsetEnds> ends = getEnds(product);
  if (!ends) {
    emitEntries();
    return {cells, launch.panel};
  }
  Value areLow = ends->areLow(kernel, kernel.add(firstEntry, high));
  Value areHigh = ends->areHigh(kernel, kernel.add(firstEntry, group));
  auto copyEnd = [&] {
    Index lane = kernel.select(areLow, 0, launch.panel);
    Value from = item.ofPanel(product.atEnds, 2, lane);
    for (int64_t v = 0; v < launch.vectors; ++v) {
      Value vector = kernel.loadVector(from, {v * kernel.width()});
      for (int64_t r = 0; r < launch.rows; ++r)
        kernel.storeVector(vector, cells,
                           {r * launch.panel + v * kernel.width()});
    }
  };
  kernel.when(kernel.either(areLow, areHigh), copyEnd, emitEntries);
  return {cells, launch.panel};
}

/// The entry of the last key of a group and a query.
Index ForwardOffsetBand::getWindow(Index group, Index firstRow) {
  Index origin =
      shape.getOrigin(kernel, arguments.getSize(launch.sites.key, 2));
  Index last = kernel.add(kernel.add(item.firstKey, group), launch.rows - 1);
  return kernel.add(kernel.sub(firstRow, last), origin);
}

/// The products of a group of keys with the entries of its window, which begins
/// at that of the last key and the panel's first query.
BandCell ForwardOffsetBand::emitWindow(const BandProduct &product,
                                       Index group) {
  int64_t width = kernel.width(), stride = (launch.vectors + 1) * width;
  Index window = getWindow(group, item.firstRow);
  Index firstVector = kernel.div(window, width);
  Value entries = item.at(product.entries);
  Index begin = kernel.rem(window, width); // in its vectors
  BandCell cell{kernel.advance(entries, {begin, launch.rows - 1}), stride - 1};
  auto emitEntries = [&] { emitWindowEntries(product, group, firstVector); };
  std::optional<OffsetEnds> ends = getEnds(product);
  if (!ends) {
    emitEntries();
    return cell;
  }
  Value areLow =
      ends->areLow(kernel, kernel.add(window, launch.panel + launch.rows - 1));
  Value areHigh = ends->areHigh(kernel, window);
  auto copyEnd = [&] {
    Index first = kernel.select(areLow, 0, launch.keys);
    Value from =
        item.at(product.atEnds, {kernel.mul(kernel.add(first, group), width)});
    for (int64_t r = 0; r < launch.rows; ++r) {
      Value vector = kernel.loadVector(from, {r * width});
      for (int64_t lane = 0; lane < stride; lane += width)
        kernel.storeVector(vector, entries, {r * stride + lane});
    }
  };
  kernel.when(kernel.either(areLow, areHigh), copyEnd, emitEntries);
  return cell;
}

void ForwardOffsetBand::emitWindowEntries(const BandProduct &product,
                                          Index group, Index firstVector) {
  int64_t width = kernel.width(), vectors = launch.vectors + 1;
  Value entries = item.at(product.entries);
  Value from = item.at(product.rows, {kernel.mul(group, shape.row)});
  SmallVector<TileRow> rows = getTileRows(from, launch.rows, shape.row);
  // A register tile has a vector more where there are registers for it.
  int64_t most = kernel.target.hasManyRegisters() ? vectors : launch.vectors;
  for (int64_t first = 0; first < vectors; first += most) {
    RegisterTile tile;
    tile.rows = rows;
    tile.base =
        arguments.getAddress(launch.offsetRows[product.number],
                             {item.kvHead, kernel.add(firstVector, first)});
    tile.vectorStep = width;
    tile.vectorDistance = shape.row * width;
    tile.vectors = std::min(most, vectors - first);
    tile.count = shape.dim;
    Values sums = emitTile(
        kernel, tile, Values(launch.rows * tile.vectors, kernel.splatF32(0.0)));
    for (int64_t r = 0; r < launch.rows; ++r)
      for (int64_t v = 0; v < tile.vectors; ++v)
        kernel.storeVector(sums[r * tile.vectors + v], entries,
                           {(r * vectors + first + v) * width});
  }
}
