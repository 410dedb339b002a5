//===- BackwardKeyBand.cpp - Key rows times rows of offsets ---------------===//

#include "codegen/CPU/Backward/BackwardKeyBand.h"
#include "codegen/CPU/Backward/BackwardPacking.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

BackwardKeyBand::BackwardKeyBand(BackwardItem &at, BackwardPoint &point,
                                 SeenPanels &panels)
    : at(at), point(point), panels(panels),
      edge(shape.rows + RegisterTile().unroll) {
  for (auto [number, product] : llvm::enumerate(launch.plan.offsetProducts)) {
    if (product.table.side != pos::Side::key)
      continue;
    KeyProduct next;
    next.number = number;
    next.addend = at.reserve(offsets.row);
    next.keys = at.reserve(shape.keys * offsets.row);
    next.packed = at.reserve(shape.keys * offsets.row);
    next.entries = at.reserve((shape.queries + shape.panel) * shape.panel);
    next.cells = at.reserve(shape.rows * shape.panel);
    Value tile = at.reserve((shape.queries + 2 * edge) * shape.stride);
    next.gradients = kernel.advance(tile, {edge * shape.stride});
    next.end = at.reserve(2);
    for (int64_t end = 0; product.isClipped && end < 2; ++end) {
      next.atEnds[end] = at.reserve(shape.keys);
      next.endGradients[end] = at.reserve(shape.keys);
    }
    products.push_back(next);
  }
}

//===----------------------------------------------------------------------===//
// Tiles and blocks
//===----------------------------------------------------------------------===//

void BackwardKeyBand::clear() {
  for (const KeyProduct &product : products) {
    kernel.clear(product.keys, shape.keys * offsets.row);
    kernel.clear(kernel.advance(product.gradients, {-edge * shape.stride}),
                 (shape.queries + 2 * edge) * shape.stride);
    const PartialSum &sum = launch.offsetRowGradients[product.number];
    if (sum)
      clearSeenRows(
          kernel, at.arguments, launch.offsetSeen[product.number], offsets.row,
          at.arguments.getAddress(*sum, {at.getSum(), at.batch, at.kvHead}));
  }
}

void BackwardKeyBand::loadTile() {
  Index total = kernel.mul(at.panelCount, shape.panel);
  for (const KeyProduct &product : products) {
    RowCopy copy;
    copy.tensor = launch.sites.key;
    copy.batch = at.batch;
    copy.head = at.kvHead;
    copy.first = at.firstKey;
    copy.count = total;
    copy.dim = offsets.dim;
    copy.to = product.keys;
    copy.rowWords = offsets.row;
    copy.atOnce = shape.isNear ? shape.rows : 1;
    emitRowCopy(kernel, at.arguments, copy, launch.element);
    if (auto param = launch.plan.offsetProducts[product.number].table.addend) {
      copyAddend(kernel, at.arguments, *launch.sites.params[*param], at.kvHead,
                 offsets.dim, offsets.row, product.addend);
      addToRows(kernel, product.addend, total, offsets.dim, offsets.row,
                product.keys);
    }
    transposePanels(at, product.keys, product.packed, offsets.row, 1.0,
                    /*toRows=*/false);
    kernel.clear(
        at.arguments.getAddress(*launch.offsetSideGradients[product.number],
                                {at.part, at.batch, at.kvHead, at.firstKey}),
        kernel.mul(total, offsets.row));
    if (getEnds(product))
      emitEnds(product);
  }
}

/// Clears what diagonals reach below the block.
void BackwardKeyBand::load() {
  for (const KeyProduct &product : products)
    kernel.clear(kernel.advance(product.gradients,
                                {kernel.mul(at.groupEnd, shape.stride)}),
                 edge * shape.stride);
}

Index BackwardKeyBand::getOrigin() {
  return offsets.getOrigin(kernel, at.getLength(pos::Side::key));
}

void BackwardKeyBand::enterPanel(Index panel) {
  if (products.empty())
    return;
  // The entry of the first row of products: that of the panel's last key and
  // the query before the block.
  Index firstKey = kernel.add(at.firstKey, kernel.mul(panel, shape.panel));
  firstEntry =
      kernel.sub(kernel.add(kernel.sub(at.firstQuery, firstKey), getOrigin()),
                 shape.panel);
  for (const KeyProduct &product : products)
    kernel.store(kernel.constantI64(0), product.end);
}

OffsetPanel BackwardKeyBand::getPanel(const KeyProduct &product, Index panel) {
  Value packed = kernel.advance(product.packed,
                                {kernel.mul(panel, offsets.row * shape.panel)});
  return {offsets, shape.rows, shape.vectors, packed};
}

void BackwardKeyBand::emitProducts(Index group, Index panel) {
  for (const KeyProduct &product : products) {
    Value gradients =
        kernel.advance(product.gradients, {kernel.mul(group, shape.stride),
                                           kernel.mul(panel, shape.panel)});
    point.products.setBandCell(product.number,
                               {product.cells, shape.panel, gradients});
    if (!getEnds(product)) {
      emitEntries(product, group, panel);
      continue;
    }
    auto [lowPanel, highPanel] = getBand(product, group);
    Index high = lowPanel, low = highPanel;
    Value areHigh = kernel.less(panel, high);
    Value areLow = kernel.compare(arith::CmpIPredicate::sge, panel, low);
    auto copyEnd = [&] {
      Index lane = kernel.mul(panel, shape.panel);
      Value from = kernel.selectF(areLow, product.atEnds[0], product.atEnds[1]);
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Value vector = kernel.loadVector(from, {lane, v * kernel.width()});
        for (int64_t r = 0; r < shape.rows; ++r)
          kernel.storeVector(vector, product.cells,
                             {r * shape.panel + v * kernel.width()});
      }
    };
    kernel.when(kernel.either(areLow, areHigh), copyEnd,
                [&] { emitEntries(product, group, panel); });
  }
}

void BackwardKeyBand::emitEntries(const KeyProduct &product, Index group,
                                  Index panel) {
  OffsetPanel packed = getPanel(product, panel);
  Index low = kernel.max(group, kernel.load(kernel.i64, product.end));
  Index high = kernel.add(group, packed.countEntries());
  Value from = at.arguments.getAddress(launch.offsetRows[product.number],
                                       {at.kvHead, firstEntry});
  packed.emitEntries(kernel, from, low, high, product.entries);
  packed.emitDiagonals(
      kernel, kernel.advance(product.entries, {kernel.mul(group, shape.panel)}),
      product.cells);
  kernel.store(kernel.value(high), product.end);
}

SmallVector<Value> BackwardKeyBand::getTiles() const {
  return llvm::to_vector(llvm::map_range(
      products, [](const KeyProduct &product) { return product.gradients; }));
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void BackwardKeyBand::addGradients() {
  for (const KeyProduct &product : products) {
    if (getEnds(product))
      sumEnds(product);
    findSeen(product);
    addKeyGradient(product);
    if (launch.offsetRowGradients[product.number])
      addRowGradient(product);
  }
}

void BackwardKeyBand::findSeen(const KeyProduct &product) {
  Values none{kernel.constantI64(shape.keys), kernel.constantI64(0),
              kernel.constantI64(shape.queries),
              kernel.constantI64(-shape.keys)};
  Values seen = kernel.loop(
      0, at.groupEnd, shape.rows, none,
      [&](Value group, ValueRange known) -> Values {
        auto [seenLow, seenHigh] = panels.get(group);
        auto [bandLow, bandHigh] = getBand(product, group);
        Index lowPanel = kernel.max(seenLow, bandLow);
        Index highPanel = kernel.min(seenHigh, bandHigh);
        Value isSeen = kernel.less(lowPanel, highPanel);
        Index low = kernel.mul(lowPanel, shape.panel);
        Index high = kernel.mul(highPanel, shape.panel);
        Index first = kernel.sub(kernel.add(group, 1), high);
        Index last = kernel.sub(kernel.add(group, shape.rows), low);
        auto widen = [&](unsigned number, Index bound, bool isLow) {
          Index old = known[number];
          Index next = isLow ? kernel.min(old, bound) : kernel.max(old, bound);
          return kernel.value(kernel.select(isSeen, next, old));
        };
        return {widen(0, low, true), widen(1, high, false),
                widen(2, first, true), widen(3, last, false)};
      });
  columns = {seen[0], seen[1]};
  diagonals = {seen[2], seen[3]};
}

/// The gradient of a group of key rows: their cotangents, each key shifted by
/// one against the key before it, times the rows of the window.
void BackwardKeyBand::addKeyGradient(const KeyProduct &product) {
  Value target =
      at.arguments.getAddress(*launch.offsetSideGradients[product.number],
                              {at.part, at.batch, at.kvHead, at.firstKey});
  kernel.loop(columns.low, columns.high, shape.rows, [&](Value group) {
    // Step 0 is the last key's with the block's first query.
    Value from = kernel.advance(product.gradients,
                                {(1 - shape.rows) * shape.stride, group});
    SmallVector<TileRow> rows = getTileRows(from, shape.rows, shape.stride + 1);
    Index last = kernel.add(kernel.add(at.firstKey, group), shape.rows - 1);
    Index entry = kernel.add(kernel.sub(at.firstQuery, last), getOrigin());
    RegisterTile tile;
    tile.rows = rows;
    tile.rowStep = shape.stride;
    tile.count = kernel.add(at.groupEnd, shape.rows);
    tile.isWhole = true;
    tile.vectorStep = offsets.row;
    tile.base = at.arguments.getAddress(launch.offsetRows[product.number],
                                        {at.kvHead, entry});
    addRows(kernel, tile,
            kernel.advance(target, {kernel.mul(group, offsets.row)}),
            offsets.row);
  });
}

/// The gradients of the rows of offsets: cotangents of a diagonal times the key
/// rows that it passes.
void BackwardKeyBand::addRowGradient(const KeyProduct &product) {
  Value target =
      at.arguments.getAddress(*launch.offsetRowGradients[product.number],
                              {at.getSum(), at.batch, at.kvHead});
  // The entry of query 0 and key 0 of the tile.
  Index corner =
      kernel.add(kernel.sub(at.firstQuery, at.firstKey), getOrigin());
  int64_t unroll = RegisterTile().unroll;
  kernel.loop(diagonals.low, diagonals.high, shape.rows, [&](Value diagonal) {
    // Keys that the diagonals pass inside of the tile, and a few that they pass
    // beside it, where there are zeros.
    Index low = kernel.max(kernel.sub(1 - shape.rows, diagonal), columns.low);
    low = kernel.mul(kernel.div(low, unroll), unroll);
    Index high = kernel.roundUp(
        kernel.max(kernel.sub(at.groupEnd, diagonal), 0), unroll);
    high = kernel.min(columns.high, high);
    Value from =
        kernel.advance(product.gradients, {kernel.mul(low, shape.stride + 1),
                                           kernel.mul(diagonal, shape.stride)});
    SmallVector<TileRow> rows = getTileRows(from, shape.rows, shape.stride);
    RegisterTile tile;
    tile.rows = rows;
    tile.rowStep = shape.stride + 1;
    tile.count = kernel.max(kernel.sub(high, low), 0);
    tile.isWhole = true;
    tile.vectorStep = offsets.row;
    tile.base = kernel.advance(product.keys, {kernel.mul(low, offsets.row)});
    addRows(kernel, tile,
            kernel.advance(target, {kernel.mul(kernel.add(corner, diagonal),
                                               offsets.row)}),
            offsets.row);
  });
}

//===----------------------------------------------------------------------===//
// Ends of clipped indices
//===----------------------------------------------------------------------===//

std::optional<OffsetEnds> BackwardKeyBand::getEnds(const KeyProduct &product) {
  std::optional<unsigned> ends = launch.offsetEnds[product.number];
  if (!ends)
    return std::nullopt;
  return OffsetEnds::load(kernel, at.arguments, *ends);
}

/// The entry whose row all entries of an end have.
Index BackwardKeyBand::getEntry(const KeyProduct &product, int64_t end) {
  Index entries = at.arguments.getSize(launch.offsetRows[product.number], 1);
  return end ? kernel.sub(entries, 1) : Index(0);
}

/// The panels whose cells with a group lie at no end: [low, high). Those before
/// them lie at the high end, those after them at the low one.
SeenPanels::Range<Index> BackwardKeyBand::getBand(const KeyProduct &product,
                                                  Index group) {
  std::optional<OffsetEnds> ends = getEnds(product);
  if (!ends)
    return {0, at.panelCount};
  // The least entry of a panel is less by `panel` for the next one.
  Index first = kernel.sub(kernel.add(at.firstQuery, group), at.firstKey);
  first = kernel.add(first, getOrigin());
  first = kernel.sub(first, shape.panel - 1);
  auto countPanels = [&](Index entries) {
    return kernel.ceilDiv(kernel.max(entries, 0), shape.panel);
  };
  Index low = countPanels(kernel.add(kernel.sub(first, ends->high), 1));
  Index last = kernel.add(first, shape.panel + shape.rows - 2);
  Index high = countPanels(kernel.add(kernel.sub(last, ends->low), 1));
  return {low, kernel.max(low, high)};
}

/// The products of the tile's keys with the rows of both ends; clears their
/// gradients.
void BackwardKeyBand::emitEnds(const KeyProduct &product) {
  for (int64_t end = 0; end < 2; ++end) {
    SmallVector<TileRow> rows{
        {at.arguments.getAddress(launch.offsetRows[product.number],
                                 {at.kvHead, getEntry(product, end)})}};
    kernel.loop(0, at.panelCount, 1, [&](Value panel) {
      RegisterTile tile;
      tile.rows = rows;
      tile.base = getPanel(product, panel).packed;
      tile.vectorStep = shape.panel;
      tile.vectors = shape.vectors;
      tile.count = offsets.dim;
      Values sums =
          emitTile(kernel, tile, Values(shape.vectors, kernel.splatF32(0.0)));
      for (auto [v, sum] : llvm::enumerate(sums))
        kernel.storeVector(sum, product.atEnds[end],
                           {kernel.mul(panel, shape.panel),
                            static_cast<int64_t>(v) * kernel.width()});
    });
    kernel.clear(product.endGradients[end],
                 kernel.mul(at.panelCount, shape.panel));
  }
}

/// Takes the cotangents of cells at an end out of the tile.
void BackwardKeyBand::sumEnds(const KeyProduct &product) {
  auto sumPanel = [&](Index group, Index panel, int64_t end) {
    for (int64_t v = 0; v < shape.vectors; ++v) {
      Index lane =
          kernel.add(kernel.mul(panel, shape.panel), v * kernel.width());
      Value from = kernel.advance(product.gradients,
                                  {kernel.mul(group, shape.stride), lane});
      Value to = kernel.advance(product.endGradients[end], {lane});
      Value sum = kernel.loadVector(to);
      for (int64_t r = 0; r < shape.rows; ++r) {
        sum = kernel.addF(sum, kernel.loadVector(from, {r * shape.stride}));
        kernel.storeVector(kernel.splatF32(0.0), from, {r * shape.stride});
      }
      kernel.storeVector(sum, to);
    }
  };
  kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
    auto [seenLow, seenHigh] = panels.get(group);
    auto [bandLow, bandHigh] = getBand(product, group);
    kernel.loop(seenLow, kernel.min(bandLow, seenHigh), 1,
                [&](Value panel) { sumPanel(group, panel, 1); });
    kernel.loop(kernel.max(bandHigh, seenLow), seenHigh, 1,
                [&](Value panel) { sumPanel(group, panel, 0); });
  });
}

void BackwardKeyBand::endTile() {
  for (const KeyProduct &product : products)
    if (getEnds(product))
      for (int64_t end = 0; end < 2; ++end)
        addEndGradients(product, end);
}

/// A key's gradient is its sum times the row of the end; that of the row is the
/// sum of the keys times theirs.
void BackwardKeyBand::addEndGradients(const KeyProduct &product, int64_t end) {
  Index entry = getEntry(product, end);
  Value row = at.arguments.getAddress(launch.offsetRows[product.number],
                                      {at.kvHead, entry});
  Value keyTarget =
      at.arguments.getAddress(*launch.offsetSideGradients[product.number],
                              {at.part, at.batch, at.kvHead, at.firstKey});
  const PartialSum &rowSum = launch.offsetRowGradients[product.number];
  Value rowTarget;
  if (rowSum)
    rowTarget = at.arguments.getAddress(
        *rowSum, {at.getSum(), at.batch, at.kvHead, entry});
  kernel.loop(0, kernel.mul(at.panelCount, shape.panel), 1, [&](Value key) {
    Value sum = kernel.loadBroadcast(product.endGradients[end], {key});
    Index first = kernel.mul(key, offsets.row);
    auto add = [&](Value factors, Value to) {
      for (int64_t lane = 0; lane < offsets.row; lane += kernel.width())
        kernel.storeVector(kernel.fma(sum, kernel.loadVector(factors, {lane}),
                                      kernel.loadVector(to, {lane})),
                           to, {lane});
    };
    add(row, kernel.advance(keyTarget, {first}));
    if (rowTarget)
      add(kernel.advance(product.keys, {first}), rowTarget);
  });
}
