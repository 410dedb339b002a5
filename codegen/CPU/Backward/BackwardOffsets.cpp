//===- BackwardOffsets.cpp - Rows of offsets in the backward --------------===//
//
// Lanes are keys, so the entries of a query row's products follow each other:
// a group of rows has one window of entries, in which each row is read one lane
// before the row before it. Windows are computed panel by panel, where some
// cell is seen.
//
// The cotangents of a block lie as a tile of their own. Read along its
// diagonals it is what both gradients multiply: of query rows with the rows of
// offsets, of the rows of offsets with query rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Backward/BackwardKernel.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

void BackwardKernel::reserveOffsets(ScratchLayout &layout, Value scratch) {
  auto reserve = [&](int64_t words) {
    return kernel.advance(scratch, {layout.reserve(words)});
  };
  const OffsetShape &offsets = task.offsetShape;
  int64_t width = kernel.width();
  windowStride = (shape.panels * shape.vectors + 1) * width;
  for (size_t n = 0; n < task.plan.offsetProducts.size(); ++n) {
    OffsetBlock block;
    block.addend = reserve(offsets.row);
    block.queries = reserve(shape.queries * offsets.row);
    block.products = reserve(shape.queries * windowStride);
    // The first row is read before its begin.
    Value tile = reserve(shape.queries * shape.stride + 2 * width);
    block.gradients = kernel.advance(tile, {width});
    offsetBlocks.push_back(block);
  }
  if (!offsetBlocks.empty())
    offsetEnds = reserve(2 * shape.queries / shape.rows);
}

/// Before the first block of an item.
void BackwardKernel::clearOffsets() {
  for (OffsetBlock &block : offsetBlocks)
    kernel.clear(block.queries, shape.queries * task.offsetShape.row);
}

/// Copies the query rows of the block as they entered, with what is added.
void BackwardKernel::beginOffsetBlock() {
  const OffsetShape &offsets = task.offsetShape;
  int64_t width = kernel.width();
  for (auto [number, block] : llvm::enumerate(offsetBlocks)) {
    RowCopy copy;
    copy.tensor = task.sites.query;
    copy.batch = batch;
    copy.head = head;
    copy.first = firstQuery;
    copy.count = groupEnd;
    copy.dim = offsets.dim;
    copy.to = block.queries;
    copy.rowWords = offsets.row;
    emitRowCopy(kernel, arguments, copy, task.element);
    if (auto param = task.plan.offsetProducts[number].table.addend) {
      copyAddend(kernel, arguments, *task.sites.params[*param], head,
                 offsets.dim, offsets.row, block.addend);
      addToRows(kernel, block.addend, groupEnd, offsets.row, block.queries);
    }
    // What diagonals reach beside the tile.
    Value zero = kernel.splatF32(0.0);
    kernel.storeVector(zero, block.gradients, {-width});
    kernel.loop(0, groupEnd, 1, [&](Value row) {
      Value at =
          kernel.advance(block.gradients, {kernel.mul(row, shape.stride)});
      kernel.storeVector(zero, at, {kernel.mul(panelCount, shape.panel)});
      kernel.storeVector(zero, at, {shape.keys});
    });
  }
  if (!offsetBlocks.empty())
    kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
      kernel.store(kernel.constantI64(0),
                   kernel.advance(offsetEnds, {kernel.div(group, shape.rows)},
                                  kernel.i64));
    });
}

/// The entry of the last row of a group and the first key of the tile.
Index BackwardKernel::getWindow(Index group) {
  Index queries = arguments.getSize(task.sites.query, 2);
  Index origin = task.offsetShape.getOrigin(kernel, queries);
  Index row = kernel.add(kernel.add(firstQuery, group), shape.rows - 1);
  return kernel.add(kernel.sub(firstKey, row), origin);
}

/// Makes the products of a cell, and tells payloads where they are.
void BackwardKernel::emitOffsetProducts(Index group, Index panel) {
  if (offsetBlocks.empty())
    return;
  const OffsetShape &offsets = task.offsetShape;
  int64_t width = kernel.width();
  Index window = getWindow(group);
  Index firstVector = kernel.div(window, width);
  Index begin = kernel.rem(window, width); // of the window in its vectors
  Index first = kernel.mul(panel, shape.vectors);
  Value endAt =
      kernel.advance(offsetEnds, {kernel.div(group, shape.rows)}, kernel.i64);
  auto emitVectors = [&](size_t number, Index vector, int64_t vectors) {
    OffsetBlock &block = offsetBlocks[number];
    Value from =
        kernel.advance(block.queries, {kernel.mul(group, offsets.row)});
    SmallVector<TileRow> rows;
    for (int64_t r = 0; r < shape.rows; ++r)
      rows.push_back({from, r * offsets.row});
    RegisterTile tile;
    tile.rows = rows;
    tile.base = arguments.getAddress(task.offsetColumns[number],
                                     {head, kernel.add(firstVector, vector)});
    tile.vectorStep = width;
    tile.vectorDistance = offsets.row * width;
    tile.vectors = vectors;
    tile.count = llvm::alignTo(offsets.dim, tile.unroll); // padding is zero
    tile.isWhole = true;
    Values sums = emitTile(kernel, tile,
                           Values(shape.rows * vectors, kernel.splatF32(0.0)));
    Value to = kernel.advance(block.products, {kernel.mul(group, windowStride),
                                               kernel.mul(vector, width)});
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        kernel.storeVector(sums[r * vectors + v], to,
                           {r * windowStride + v * width});
  };
  auto emitFirst = [&] {
    for (size_t number = 0; number < offsetBlocks.size(); ++number)
      emitVectors(number, first, 1);
  };
  // The last vector of a panel is the first of the next.
  if (task.plan.isLeftward())
    emitFirst();
  else
    kernel.when(kernel.compare(arith::CmpIPredicate::sle,
                               kernel.load(kernel.i64, endAt), first),
                emitFirst);
  SmallVector<Value> products, gradients;
  for (size_t number = 0; number < offsetBlocks.size(); ++number) {
    emitVectors(number, kernel.add(first, 1), shape.vectors);
    OffsetBlock &block = offsetBlocks[number];
    products.push_back(kernel.advance(
        block.products, {kernel.mul(group, windowStride), begin,
                         kernel.mul(panel, shape.panel), shape.rows - 1}));
    gradients.push_back(
        kernel.advance(block.gradients, {kernel.mul(group, shape.stride),
                                         kernel.mul(panel, shape.panel)}));
  }
  kernel.store(kernel.value(kernel.add(first, 1 + shape.vectors)), endAt);
  site.products.setOffsetCell(products, windowStride - 1, gradients);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// rows[r] += the register tile's product, lanes of a padded row.
static void addToLanes(KernelBuilder &kernel, RegisterTile tile, Value base,
                       int64_t row, Value to) {
  int64_t width = kernel.width();
  tile.vectorStep = row;
  tile.vectors = 2;
  kernel.loop(0, row, 2 * width, [&](Value lane) {
    tile.base = kernel.advance(base, {lane});
    Value at = kernel.advance(to, {lane});
    Values initial;
    for (size_t r = 0; r < tile.rows.size(); ++r)
      for (int64_t v = 0; v < 2; ++v)
        initial.push_back(kernel.loadVector(at, {r * row + v * width}));
    Values sums = emitTile(kernel, tile, initial);
    for (size_t r = 0; r < tile.rows.size(); ++r)
      for (int64_t v = 0; v < 2; ++v)
        kernel.storeVector(sums[2 * r + v], at, {r * row + v * width});
  });
}

void BackwardKernel::emitOffsetGradients() {
  for (size_t number = 0; number < offsetBlocks.size(); ++number) {
    emitOffsetQueryGradient(number);
    if (task.offsetRowGradients[number])
      emitOffsetRowGradient(number);
  }
}

/// Columns of the tile that a group of rows sees, as panels.
std::pair<Index, Index> BackwardKernel::getPanels(Index group) {
  Index number = kernel.div(group, shape.rows);
  Index low =
      kernel.load(kernel.i64, kernel.advance(lowPanels, {number}, kernel.i64));
  Index high =
      kernel.load(kernel.i64, kernel.advance(highPanels, {number}, kernel.i64));
  return {low, high};
}

/// The gradient of a group of query rows: their cotangents, each row shifted by
/// one against the row before it, times the rows of the window.
void BackwardKernel::emitOffsetQueryGradient(size_t number) {
  OffsetBlock &block = offsetBlocks[number];
  int64_t row = task.offsetShape.row;
  Value target = arguments.getAddress(*task.offsetQueryGradients[number],
                                      {chunk, batch, head, firstQuery});
  kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
    auto [lowPanel, highPanel] = getPanels(group);
    Index low = kernel.mul(lowPanel, shape.panel);
    Index high = kernel.mul(highPanel, shape.panel);
    kernel.when(kernel.less(low, high), [&] {
      Value from = kernel.advance(block.gradients,
                                  {kernel.mul(group, shape.stride), low});
      SmallVector<TileRow> rows;
      for (int64_t r = 0; r < shape.rows; ++r)
        rows.push_back({from, r * shape.stride - (shape.rows - 1 - r)});
      RegisterTile tile;
      tile.rows = rows;
      tile.count = kernel.add(kernel.sub(high, low), shape.rows);
      tile.isWhole = true;
      Value base = arguments.getAddress(
          task.offsetRows[number], {head, kernel.add(getWindow(group), low)});
      addToLanes(kernel, tile, base, row,
                 kernel.advance(target, {kernel.mul(group, row)}));
    });
  });
}

/// The gradients of the rows of offsets: cotangents of a diagonal times the
/// query rows that it passes.
void BackwardKernel::emitOffsetRowGradient(size_t number) {
  OffsetBlock &block = offsetBlocks[number];
  int64_t row = task.offsetShape.row;
  // Key less query, both within the tile, of what is seen: [low, high).
  Values ends{kernel.constantI64(shape.keys), kernel.constantI64(-shape.keys)};
  ends = kernel.loop(
      0, groupEnd, shape.rows, ends,
      [&](Value group, ValueRange known) -> Values {
        auto [lowPanel, highPanel] = getPanels(group);
        Value isSeen = kernel.less(lowPanel, highPanel);
        Index first = kernel.sub(kernel.mul(lowPanel, shape.panel),
                                 kernel.add(group, shape.rows - 1));
        Index last = kernel.sub(kernel.mul(highPanel, shape.panel), group);
        Index low = known[0], high = known[1];
        return {
            kernel.value(kernel.select(isSeen, kernel.min(low, first), low)),
            kernel.value(kernel.select(isSeen, kernel.max(high, last), high))};
      });
  Index columns = kernel.mul(panelCount, shape.panel);
  // The entry of query 0 and key 0 of the tile.
  Index corner = kernel.add(getWindow(0), shape.rows - 1);
  Value target = arguments.getAddress(*task.offsetRowGradients[number],
                                      {chunk, batch, head});
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
    high = kernel.min(groupEnd, high);
    Value from = kernel.advance(block.gradients,
                                {kernel.mul(low, shape.stride + 1), diagonal});
    SmallVector<TileRow> rows;
    for (int64_t r = 0; r < shape.rows; ++r)
      rows.push_back({from, r});
    RegisterTile tile;
    tile.rows = rows;
    tile.rowStep = shape.stride + 1;
    tile.count = kernel.max(kernel.sub(high, low), 0);
    tile.isWhole = true;
    Value to =
        kernel.advance(target, {kernel.mul(kernel.add(corner, diagonal), row)});
    addToLanes(kernel, tile,
               kernel.advance(block.queries, {kernel.mul(low, row)}), row, to);
  });
}
