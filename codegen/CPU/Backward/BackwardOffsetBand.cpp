//===- BackwardOffsetBand.cpp - Rows of offsets in the backward -----------===//

#include "codegen/CPU/Backward/BackwardOffsetBand.h"
#include "codegen/Rows/RowCopy.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

BackwardOffsetBand::BackwardOffsetBand(BackwardItem &at, BackwardPoint &point,
                                       SeenPanels &panels)
    : at(at), point(point), panels(panels),
      windowStride((shape.panels * shape.vectors + 1) * kernel.width()) {
  int64_t width = kernel.width();
  for (size_t n = 0; n < launch.plan.offsetProducts.size(); ++n) {
    Product product;
    product.addend = at.reserve(offsets.row);
    product.queries = at.reserve(shape.queries * offsets.row);
    product.entries = at.reserve(shape.queries * windowStride);
    // The first row is read before its begin.
    Value tile = at.reserve(shape.queries * shape.stride + 2 * width);
    product.gradients = kernel.advance(tile, {width});
    products.push_back(product);
  }
  if (!products.empty())
    ends = at.reserve(2 * shape.queries / shape.rows);
}

void BackwardOffsetBand::clear() {
  for (const Product &product : products)
    kernel.clear(product.queries, shape.queries * offsets.row);
}

void BackwardOffsetBand::load() {
  int64_t width = kernel.width();
  for (auto [number, product] : llvm::enumerate(products)) {
    RowCopy copy;
    copy.tensor = launch.sites.query;
    copy.batch = at.batch;
    copy.head = at.head;
    copy.first = at.firstQuery;
    copy.count = at.groupEnd;
    copy.dim = offsets.dim;
    copy.to = product.queries;
    copy.rowWords = offsets.row;
    emitRowCopy(kernel, at.arguments, copy, launch.element);
    if (auto param = launch.plan.offsetProducts[number].table.addend) {
      copyAddend(kernel, at.arguments, *launch.sites.params[*param], at.head,
                 offsets.dim, offsets.row, product.addend);
      addToRows(kernel, product.addend, at.groupEnd, offsets.row,
                product.queries);
    }
    // What diagonals reach beside the tile.
    Value zero = kernel.splatF32(0.0);
    kernel.storeVector(zero, product.gradients, {-width});
    kernel.loop(0, at.groupEnd, 1, [&](Value row) {
      Value first =
          kernel.advance(product.gradients, {kernel.mul(row, shape.stride)});
      kernel.storeVector(zero, first, {kernel.mul(at.panelCount, shape.panel)});
      kernel.storeVector(zero, first, {shape.keys});
    });
  }
  if (!products.empty())
    kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
      kernel.store(
          kernel.constantI64(0),
          kernel.advance(ends, {kernel.div(group, shape.rows)}, kernel.i64));
    });
}

/// The entry of the last row of a group and the first key of the tile.
Index BackwardOffsetBand::getWindow(Index group) {
  Index origin = offsets.getOrigin(kernel, at.getLength(pos::Side::query));
  Index row = kernel.add(kernel.add(at.firstQuery, group), shape.rows - 1);
  return kernel.add(kernel.sub(at.firstKey, row), origin);
}

/// The products of a group of rows with some vectors of the entries of its
/// window, from `vector` on.
void BackwardOffsetBand::emitEntries(size_t number, Index group,
                                     Index firstVector, Index vector,
                                     int64_t vectors) {
  int64_t width = kernel.width();
  const Product &product = products[number];
  Value from =
      kernel.advance(product.queries, {kernel.mul(group, offsets.row)});
  SmallVector<TileRow> rows = getTileRows(from, shape.rows, offsets.row);
  RegisterTile tile;
  tile.rows = rows;
  tile.base = at.arguments.getAddress(
      launch.offsetColumns[number], {at.head, kernel.add(firstVector, vector)});
  tile.vectorStep = width;
  tile.vectorDistance = offsets.row * width;
  tile.vectors = vectors;
  tile.count = llvm::alignTo(offsets.dim, tile.unroll); // padding is zero
  tile.isWhole = true;
  Values sums = emitTile(kernel, tile,
                         Values(shape.rows * vectors, kernel.splatF32(0.0)));
  Value to = kernel.advance(product.entries, {kernel.mul(group, windowStride),
                                              kernel.mul(vector, width)});
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      kernel.storeVector(sums[r * vectors + v], to,
                         {r * windowStride + v * width});
}

void BackwardOffsetBand::emitProducts(Index group, Index panel) {
  if (products.empty())
    return;
  Index window = getWindow(group);
  Index firstVector = kernel.div(window, kernel.width());
  Index begin = kernel.rem(window, kernel.width()); // in its vectors
  Index first = kernel.mul(panel, shape.vectors);
  Value endAt =
      kernel.advance(ends, {kernel.div(group, shape.rows)}, kernel.i64);
  auto emitFirst = [&] {
    for (size_t number = 0; number < products.size(); ++number)
      emitEntries(number, group, firstVector, first, 1);
  };
  // The last vector of a panel is the first of the next.
  if (launch.plan.isLeftward())
    emitFirst();
  else
    kernel.when(kernel.compare(arith::CmpIPredicate::sle,
                               kernel.load(kernel.i64, endAt), first),
                emitFirst);
  SmallVector<Value> entries, gradients;
  for (auto [number, product] : llvm::enumerate(products)) {
    emitEntries(number, group, firstVector, kernel.add(first, 1),
                shape.vectors);
    entries.push_back(kernel.advance(
        product.entries, {kernel.mul(group, windowStride), begin,
                          kernel.mul(panel, shape.panel), shape.rows - 1}));
    gradients.push_back(
        kernel.advance(product.gradients, {kernel.mul(group, shape.stride),
                                           kernel.mul(panel, shape.panel)}));
  }
  kernel.store(kernel.value(kernel.add(first, 1 + shape.vectors)), endAt);
  point.products.setOffsetCell(entries, windowStride - 1, gradients);
}

SmallVector<Value> BackwardOffsetBand::getTiles() const {
  return llvm::to_vector(llvm::map_range(
      products, [](const Product &product) { return product.gradients; }));
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void BackwardOffsetBand::addGradients() {
  for (size_t number = 0; number < products.size(); ++number) {
    addQueryGradient(number);
    if (launch.offsetRowGradients[number])
      addRowGradient(number);
  }
}

/// The gradient of a group of query rows: their cotangents, each row shifted by
/// one against the row before it, times the rows of the window.
void BackwardOffsetBand::addQueryGradient(size_t number) {
  const Product &product = products[number];
  Value target =
      at.arguments.getAddress(*launch.offsetQueryGradients[number],
                              {at.chunk, at.batch, at.head, at.firstQuery});
  kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
    auto [lowPanel, highPanel] = panels.get(group);
    Index low = kernel.mul(lowPanel, shape.panel);
    Index high = kernel.mul(highPanel, shape.panel);
    kernel.when(kernel.less(low, high), [&] {
      Value from = kernel.advance(product.gradients,
                                  {kernel.mul(group, shape.stride), low});
      SmallVector<TileRow> rows;
      for (int64_t r = 0; r < shape.rows; ++r)
        rows.push_back({from, r * shape.stride - (shape.rows - 1 - r)});
      RegisterTile tile;
      tile.rows = rows;
      tile.count = kernel.add(kernel.sub(high, low), shape.rows);
      tile.isWhole = true;
      tile.vectorStep = offsets.row;
      tile.base =
          at.arguments.getAddress(launch.offsetRows[number],
                                  {at.head, kernel.add(getWindow(group), low)});
      addRows(kernel, tile,
              kernel.advance(target, {kernel.mul(group, offsets.row)}),
              offsets.row);
    });
  });
}

/// The gradients of the rows of offsets: cotangents of a diagonal times the
/// query rows that it passes.
void BackwardOffsetBand::addRowGradient(size_t number) {
  const Product &product = products[number];
  // Key less query, both within the tile, of what is seen: [low, high).
  Values ends{kernel.constantI64(shape.keys), kernel.constantI64(-shape.keys)};
  ends = kernel.loop(
      0, at.groupEnd, shape.rows, ends,
      [&](Value group, ValueRange known) -> Values {
        auto [lowPanel, highPanel] = panels.get(group);
        Value isSeen = kernel.less(lowPanel, highPanel);
        Index first = kernel.sub(kernel.mul(lowPanel, shape.panel),
                                 kernel.add(group, shape.rows - 1));
        Index last = kernel.sub(kernel.mul(highPanel, shape.panel), group);
        Index low = known[0], high = known[1];
        return {
            kernel.value(kernel.select(isSeen, kernel.min(low, first), low)),
            kernel.value(kernel.select(isSeen, kernel.max(high, last), high))};
      });
  Index columns = kernel.mul(at.panelCount, shape.panel);
  // The entry of query 0 and key 0 of the tile.
  Index corner = kernel.add(getWindow(0), shape.rows - 1);
  Value target = at.arguments.getAddress(*launch.offsetRowGradients[number],
                                         {at.chunk, at.batch, at.head});
  int64_t unroll = RegisterTile().unroll;
  auto roundDown = [&](Index value) {
    return kernel.mul(kernel.div(value, unroll), unroll);
  };
  kernel.loop(ends[0], ends[1], shape.rows, [&](Value diagonal) {
    // Rows that the diagonals pass inside of the tile, and a few that they pass
    // beside it, where there are zeros.
    Index low = kernel.sub(1 - shape.rows, diagonal);
    low = roundDown(kernel.max(low, 0));
    Index high =
        kernel.roundUp(kernel.max(kernel.sub(columns, diagonal), 0), unroll);
    high = kernel.min(at.groupEnd, high);
    Value from = kernel.advance(product.gradients,
                                {kernel.mul(low, shape.stride + 1), diagonal});
    SmallVector<TileRow> rows = getTileRows(from, shape.rows, 1);
    RegisterTile tile;
    tile.rows = rows;
    tile.rowStep = shape.stride + 1;
    tile.count = kernel.max(kernel.sub(high, low), 0);
    tile.isWhole = true;
    Value to = kernel.advance(
        target, {kernel.mul(kernel.add(corner, diagonal), offsets.row)});
    tile.vectorStep = offsets.row;
    tile.base = kernel.advance(product.queries, {kernel.mul(low, offsets.row)});
    addRows(kernel, tile, to, offsets.row);
  });
}
