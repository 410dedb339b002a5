//===- BackwardOffsetBand.cpp - Query rows times rows of offsets ----------===//

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
  for (auto [number, planned] : llvm::enumerate(launch.plan.offsetProducts)) {
    if (planned.table.side != pos::Side::query)
      continue;
    QueryProduct product;
    product.number = number;
    product.addend = at.reserve(offsets.row);
    product.queries = at.reserve(shape.queries * offsets.row);
    product.entries = at.reserve(shape.queries * windowStride);
    // The first row is read before its begin.
    Value tile = at.reserve(shape.queries * shape.stride + 2 * width);
    product.gradients = kernel.advance(tile, {width});
    product.ends = at.reserve(2 * shape.queries / shape.rows);
    for (int64_t end = 0; planned.isClipped && end < 2; ++end)
      product.atEnds[end] = at.reserve(shape.queries * width);
    products.push_back(product);
  }
}

void BackwardOffsetBand::clear(Index firstHead, Index heads) {
  for (const QueryProduct &product : products) {
    kernel.clear(product.queries, shape.queries * offsets.row);
    const PartialSum &sum = launch.offsetRowGradients[product.number];
    if (!sum)
      continue;
    kernel.loop(firstHead, kernel.add(firstHead, heads), 1, [&](Value head) {
      clearSeenRows(
          kernel, at.arguments, launch.offsetSeen[product.number], offsets.row,
          at.arguments.getAddress(*sum, {at.getSum(), at.batch, head}));
    });
  }
}

void BackwardOffsetBand::load() {
  int64_t width = kernel.width();
  for (const QueryProduct &product : products) {
    RowCopy copy;
    copy.tensor = launch.sites.query;
    copy.batch = at.batch;
    copy.head = at.head;
    copy.first = at.firstQuery;
    copy.count = at.groupEnd;
    copy.dim = offsets.dim;
    copy.to = product.queries;
    copy.rowWords = offsets.row;
    copy.atOnce = shape.isNear ? shape.rows : 1;
    emitRowCopy(kernel, at.arguments, copy, launch.element);
    if (auto param = launch.plan.offsetProducts[product.number].table.addend) {
      copyAddend(kernel, at.arguments, *launch.sites.params[*param], at.head,
                 offsets.dim, offsets.row, product.addend);
      addToRows(kernel, product.addend, at.groupEnd, offsets.dim, offsets.row,
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
    kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
      kernel.store(kernel.constantI64(0), getEndAt(product, group));
    });
    if (getEnds(product))
      emitEnds(product);
  }
}

/// Where the first vector of a group's window that is not there is kept.
Value BackwardOffsetBand::getEndAt(const QueryProduct &product, Index group) {
  return kernel.advance(product.ends, {kernel.div(group, shape.rows)},
                        kernel.i64);
}

/// The entry of the last row of a group and the first key of the tile.
Index BackwardOffsetBand::getWindow(Index group) {
  Index origin = offsets.getOrigin(kernel, at.getLength(pos::Side::query));
  Index row = kernel.add(kernel.add(at.firstQuery, group), shape.rows - 1);
  return kernel.add(kernel.sub(at.firstKey, row), origin);
}

/// The products of a group of rows with some vectors of the entries of its
/// window, from `vector` on.
void BackwardOffsetBand::emitEntries(const QueryProduct &product, Index group,
                                     Index firstVector, Index vector,
                                     int64_t vectors) {
  int64_t width = kernel.width();
  Value from =
      kernel.advance(product.queries, {kernel.mul(group, offsets.row)});
  SmallVector<TileRow> rows = getTileRows(from, shape.rows, offsets.row);
  RegisterTile tile;
  tile.rows = rows;
  tile.base =
      at.arguments.getAddress(launch.offsetColumns[product.number],
                              {at.head, kernel.add(firstVector, vector)});
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
  int64_t width = kernel.width();
  Index begin = kernel.rem(getWindow(group), width); // in its vectors
  for (const QueryProduct &product : products) {
    Value window =
        kernel.advance(product.entries, {kernel.mul(group, windowStride),
                                         kernel.mul(panel, shape.panel)});
    Value gradients =
        kernel.advance(product.gradients, {kernel.mul(group, shape.stride),
                                           kernel.mul(panel, shape.panel)});
    point.products.setBandCell(product.number,
                               {kernel.advance(window, {begin, shape.rows - 1}),
                                windowStride - 1, gradients});
    if (!getEnds(product)) {
      emitWindow(product, group, panel);
      continue;
    }
    auto [low, high] = getBand(product, group);
    Value areLow = kernel.less(panel, low);
    Value areHigh = kernel.compare(arith::CmpIPredicate::sge, panel, high);
    auto copyEnd = [&] {
      Value from = kernel.advance(
          kernel.selectF(areLow, product.atEnds[0], product.atEnds[1]),
          {kernel.mul(group, width)});
      for (int64_t r = 0; r < shape.rows; ++r) {
        Value vector = kernel.loadVector(from, {r * width});
        for (int64_t v = 0; v <= shape.vectors; ++v)
          kernel.storeVector(vector, window, {r * windowStride + v * width});
      }
    };
    kernel.when(kernel.either(areLow, areHigh), copyEnd,
                [&] { emitWindow(product, group, panel); });
  }
}

/// The entries of a group's window that a panel reads.
void BackwardOffsetBand::emitWindow(const QueryProduct &product, Index group,
                                    Index panel) {
  Index firstVector = kernel.div(getWindow(group), kernel.width());
  Index first = kernel.mul(panel, shape.vectors);
  Value endAt = getEndAt(product, group);
  // The last vector of a panel is the first of the next.
  auto emitFirst = [&] { emitEntries(product, group, firstVector, first, 1); };
  if (launch.plan.isLeftward())
    emitFirst();
  else
    kernel.when(kernel.compare(arith::CmpIPredicate::sle,
                               kernel.load(kernel.i64, endAt), first),
                emitFirst);
  emitEntries(product, group, firstVector, kernel.add(first, 1), shape.vectors);
  kernel.store(kernel.value(kernel.add(first, 1 + shape.vectors)), endAt);
}

SmallVector<Value> BackwardOffsetBand::getTiles() const {
  return llvm::to_vector(llvm::map_range(
      products, [](const QueryProduct &product) { return product.gradients; }));
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void BackwardOffsetBand::addGradients() {
  for (const QueryProduct &product : products) {
    if (getEnds(product))
      sumEnds(product);
    addQueryGradient(product);
    if (launch.offsetRowGradients[product.number])
      addRowGradient(product);
  }
}

/// The gradient of a group of query rows: their cotangents, each row shifted by
/// one against the row before it, times the rows of the window.
void BackwardOffsetBand::addQueryGradient(const QueryProduct &product) {
  Value target =
      at.arguments.getAddress(*launch.offsetSideGradients[product.number],
                              {at.chunk, at.batch, at.head, at.firstQuery});
  kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
    auto [lowPanel, highPanel] = getSeenBand(product, group);
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
          at.arguments.getAddress(launch.offsetRows[product.number],
                                  {at.head, kernel.add(getWindow(group), low)});
      addRows(kernel, tile,
              kernel.advance(target, {kernel.mul(group, offsets.row)}),
              offsets.row);
    });
  });
}

/// The gradients of the rows of offsets: cotangents of a diagonal times the
/// query rows that it passes.
void BackwardOffsetBand::addRowGradient(const QueryProduct &product) {
  // Key less query, both within the tile, of what is seen: [low, high).
  Values ends{kernel.constantI64(shape.keys), kernel.constantI64(-shape.keys)};
  ends = kernel.loop(
      0, at.groupEnd, shape.rows, ends,
      [&](Value group, ValueRange known) -> Values {
        auto [lowPanel, highPanel] = getSeenBand(product, group);
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
  Value target =
      at.arguments.getAddress(*launch.offsetRowGradients[product.number],
                              {at.getSum(), at.batch, at.head});
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

//===----------------------------------------------------------------------===//
// Ends of clipped indices
//===----------------------------------------------------------------------===//

std::optional<OffsetEnds>
BackwardOffsetBand::getEnds(const QueryProduct &product) {
  std::optional<unsigned> ends = launch.offsetEnds[product.number];
  if (!ends)
    return std::nullopt;
  return OffsetEnds::load(kernel, at.arguments, *ends);
}

/// The panels whose cells with a group lie at no end: [low, high). Those before
/// them lie at the low end, those after them at the high one.
SeenPanels::Range<Index>
BackwardOffsetBand::getBand(const QueryProduct &product, Index group) {
  std::optional<OffsetEnds> ends = getEnds(product);
  if (!ends)
    return {0, at.panelCount};
  Index first = getWindow(group); // of panel 0
  Index last = kernel.add(first, shape.panel + shape.rows - 2);
  auto countPanels = [&](Index entries) {
    return kernel.ceilDiv(kernel.max(entries, 0), shape.panel);
  };
  Index low = countPanels(kernel.sub(ends->low, last));
  Index high = countPanels(kernel.sub(ends->high, first));
  return {low, kernel.max(low, high)};
}

/// The panels of `getBand` that the group sees.
SeenPanels::Range<Index>
BackwardOffsetBand::getSeenBand(const QueryProduct &product, Index group) {
  auto [seenLow, seenHigh] = panels.get(group);
  auto [low, high] = getBand(product, group);
  return {kernel.max(low, seenLow), kernel.min(high, seenHigh)};
}

/// The products of the block's queries with the rows of the ends that the block
/// reaches.
void BackwardOffsetBand::emitEnds(const QueryProduct &product) {
  int64_t width = kernel.width();
  OffsetEnds ends = *getEnds(product);
  Index least = getWindow(kernel.sub(at.groupEnd, shape.rows));
  Index greatest = kernel.add(
      getWindow(0),
      kernel.add(kernel.mul(at.panelCount, shape.panel), shape.rows));
  Index vectors = at.arguments.getSize(launch.offsetColumns[product.number], 1);
  for (int64_t end = 0; end < 2; ++end) {
    Value isReached =
        end ? ends.areHigh(kernel, greatest) : ends.areLow(kernel, least);
    kernel.when(isReached, [&] {
      kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
        Value from =
            kernel.advance(product.queries, {kernel.mul(group, offsets.row)});
        SmallVector<TileRow> rows = getTileRows(from, shape.rows, offsets.row);
        RegisterTile tile;
        tile.rows = rows;
        tile.base = at.arguments.getAddress(
            launch.offsetColumns[product.number],
            {at.head, end ? kernel.sub(vectors, 1) : Index(0)});
        tile.vectorStep = width;
        tile.vectors = 1;
        tile.count = offsets.dim;
        Values sums =
            emitTile(kernel, tile, Values(shape.rows, kernel.splatF32(0.0)));
        for (auto [r, sum] : llvm::enumerate(sums))
          kernel.storeVector(
              sum, product.atEnds[end],
              {kernel.mul(group, width), static_cast<int64_t>(r) * width});
      });
    });
  }
}

/// Takes the cotangents of cells at an end out of the tile.
void BackwardOffsetBand::sumEnds(const QueryProduct &product) {
  kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
    auto [seenLow, seenHigh] = panels.get(group);
    auto [bandLow, bandHigh] = getBand(product, group);
    addEndGradients(product, group, {seenLow, kernel.min(bandLow, seenHigh)},
                    0);
    addEndGradients(product, group, {kernel.max(bandHigh, seenLow), seenHigh},
                    1);
  });
}

/// A query's gradient is the sum of its cotangents times the row of the end;
/// that of the row is the sum of the queries times theirs.
void BackwardOffsetBand::addEndGradients(const QueryProduct &product,
                                         Index group,
                                         SeenPanels::Range<Index> seen,
                                         int64_t end) {
  Index entries = at.arguments.getSize(launch.offsetRows[product.number], 1);
  Index entry = end ? kernel.sub(entries, 1) : Index(0);
  Value endRow = at.arguments.getAddress(launch.offsetRows[product.number],
                                         {at.head, entry});
  Value queryTarget =
      at.arguments.getAddress(*launch.offsetSideGradients[product.number],
                              {at.chunk, at.batch, at.head, at.firstQuery});
  const PartialSum &rowSum = launch.offsetRowGradients[product.number];
  Value rowTarget;
  if (rowSum)
    rowTarget = at.arguments.getAddress(
        *rowSum, {at.getSum(), at.batch, at.head, entry});
  Value zero = kernel.splatF32(0.0);
  auto addRow = [&](Value row) {
    Index number = kernel.add(group, row);
    Value cells =
        kernel.advance(product.gradients, {kernel.mul(number, shape.stride)});
    Value sum = kernel.loop(
        kernel.mul(seen.low, shape.panel), kernel.mul(seen.high, shape.panel),
        kernel.width(), zero, [&](Value lane, ValueRange known) -> Values {
          Value next = kernel.addF(known[0], kernel.loadVector(cells, {lane}));
          kernel.storeVector(zero, cells, {lane});
          return {next};
        })[0];
    sum = kernel.broadcast(kernel.sumLanes(sum));
    Index first = kernel.mul(number, offsets.row);
    auto add = [&](Value factors, Value to) {
      for (int64_t lane = 0; lane < offsets.row; lane += kernel.width())
        kernel.storeVector(kernel.fma(sum, kernel.loadVector(factors, {lane}),
                                      kernel.loadVector(to, {lane})),
                           to, {lane});
    };
    add(endRow, kernel.advance(queryTarget, {first}));
    if (rowTarget)
      add(kernel.advance(product.queries, {first}), rowTarget);
  };
  kernel.when(kernel.less(seen.low, seen.high),
              [&] { kernel.loop(0, shape.rows, 1, addRow); });
}
