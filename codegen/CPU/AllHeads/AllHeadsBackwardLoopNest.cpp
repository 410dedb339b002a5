//===- AllHeadsBackwardLoopNest.cpp - Backward of scores of all heads -----===//
//
// Lanes are keys. One work item is (batch, tiles of keys, part of the blocks of
// queries); a tile of keys is one panel of all heads, and as many are kept as a
// second cache has room for, since Q, dO and dQ pass once for all of them
// (CacheTraffic.h):
//
//   for each few tiles of keys:
//     K and V of all heads: packed as K^T and V^T; clear dK^T, dV^T
//     for each block of queries, for each of the tiles that see some of it,
//       back and forth:
//       the window of its offsets
//       for each head: S = Q K^T, dP - delta
//       for each query, for each vector of keys: the payload again, P, and the
//         pullback of P (dP - delta); P replaces S, dS replaces dP
//       with hinges, around each group of queries: their functions of all
//         heads, and the moments of these
//       every 16 queries: sums of the gradients of matrices
//       for each head: dV^T += dO^T P; dK^T += Q^T dS; dQ += dS K, whose rows
//         are made of K^T
//       the window of gradients
//     dK and dV of all heads: transposed into rows, row maps pulled back
//
// A matrix unit makes the products of bf16 (AllHeadsUnitProducts.h). It reads Q
// and dO of all heads from copies, which the tiles that are kept share.
//
// On a CPU an item has few tiles, next to each other, and takes its turn to add
// to dQ (ItemOrder.h). On a GPU it has a chunk of them, one after the other,
// and a copy of dQ, and where queries are cut dK and dV are those of its part.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/AllHeads/AllHeadsBackwardLoopNest.h"
#include "codegen/CPU/AllHeads/AllHeadsBlock.h"
#include "codegen/CPU/AllHeads/AllHeadsUnitProducts.h"
#include "codegen/CPU/Backward/ItemOrder.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

namespace {
class AllHeadsBackwardLoopNest {
public:
  explicit AllHeadsBackwardLoopNest(BackwardItem &at);

  void emitItem();

private:
  /// Rows of a block of queries, in place or copied.
  struct Rows {
    Value base;
    Index stride = 0;
  };

  void enterHead(Index number);
  void emitTilesTogether();
  void emitBlocks(function_ref<void(function_ref<void()>)> forEachTile);
  void forEachKeyHead(function_ref<void()> body);
  void clearQueryGradient();
  void loadQueries();
  void emitBlock();
  Rows prepareRows(unsigned tensor, int64_t row, bool mustCopy,
                   const std::optional<RowsApart> &apart, Value buffer,
                   function_ref<void()> copy);
  Rows prepareQueries();
  Rows prepareOutputGradients();
  void emitProduct(const Rows &rows, Value packed, int64_t dim, Index group,
                   ValueRange initial, Value to);
  void emitProducts(Index low, Index high);
  void addKeyGradients(const KeyTile::Operand &packed, const Rows &rows,
                       Value scores, Index low, Index high);
  void addQueryGradient(Index low, Index high);
  void addGradients(Index low, Index high);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  ArgumentBlock &arguments = at.arguments;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  ScoreForm form;
  BackwardPoint maskPoint;
  BackwardVisibility visibility;
  PiecewiseLinearTile hinges;
  KeyTile keys;
  AllHeadsTiles tiles;
  QueryBlock queries;
  OffsetWindow window, gradientWindow;
  AllHeadsBackwardPoint point;
  AllHeadsMask mask;
  AllHeadsPayloads payloads;
  std::optional<AllHeadsUnitProducts> unit; ///< of targets that have one
  std::optional<ItemOrder> order;           ///< where items take turns
  Value areLoaded; ///< i64: whether rows of the block have been copied
};
} // namespace

AllHeadsBackwardLoopNest::AllHeadsBackwardLoopNest(BackwardItem &at)
    : at(at), form(launch.plan, shape.dot),
      maskPoint(kernel, arguments, launch), visibility(at, maskPoint),
      hinges(kernel, arguments, launch.plan, launch.sites,
             at.reserve(PiecewiseLinearTile::countWords(
                 launch.plan, shape.rows * shape.panel)),
             shape.rows, shape.vectors, /*hasGradients=*/true),
      keys(at, form, launch.weights->getHeads()), tiles(at),
      queries(at, form, shape.isTiled ? tiles.heads : 1),
      window(kernel, arguments, launch.plan, launch.sites,
             shape.queries + shape.keys, at.scratch),
      gradientWindow(kernel, arguments, launch.plan, launch.sites,
                     shape.queries + shape.keys, at.scratch),
      point(at, window, gradientWindow), mask(tiles, maskPoint, visibility),
      payloads(tiles, point, hinges, form) {
  maskPoint.setOffsets(TilePoint::Offsets::InPlace);
  maskPoint.setHinges(&hinges);
  point.setHinges(&hinges);
  form.moveFactorToKeys();
  if (launch.order)
    order.emplace(at);
  if (!shape.isTiled)
    return;
  unit.emplace(tiles, keys, queries);
  areLoaded = at.reserve(2);
}

//===----------------------------------------------------------------------===//
// Loop nest
//===----------------------------------------------------------------------===//

void AllHeadsBackwardLoopNest::enterHead(Index number) {
  at.head = number;
  Index group = kernel.div(tiles.heads, arguments.getSize(launch.sites.key, 1));
  at.kvHead = kernel.div(at.head, group);
  queries.enterHead();
}

void AllHeadsBackwardLoopNest::emitItem() {
  at.kvHead = 0;
  point.enterItem(at);
  point.enterHead(at.batch, Index(0));
  maskPoint.enterHead(at.batch, Index(0));
  at.place = 0;
  if (order)
    return emitTilesTogether();
  at.clearRows(*launch.queryGradient, 0, tiles.heads);
  Index chunks = arguments.getSize(*launch.queryGradient, 0);
  kernel.loop(at.getFirstKey(), at.getLength(pos::Side::key),
              kernel.mul(chunks, shape.keys), [&](Value first) {
                at.enterTile(first);
                forEachKeyHead([&] { keys.load(); });
                emitBlocks([](function_ref<void()> body) { body(); });
                forEachKeyHead([&] { keys.store(); });
              });
}

/// What goes through the tiles of a block goes back and forth, so that it
/// begins with what the cache holds for sure.
void AllHeadsBackwardLoopNest::emitTilesTogether() {
  Index items = arguments.getSize(launch.order->progress, 1);
  Index all = kernel.ceilDiv(at.getLength(pos::Side::key), shape.keys);
  Index perItem = kernel.ceilDiv(all, items);
  Index first = kernel.mul(at.chunk, perItem);
  Index count = kernel.min(perItem, kernel.max(kernel.sub(all, first), 0));
  auto enterTile = [&](Index place) {
    at.place = place;
    at.enterTile(kernel.mul(kernel.add(first, place), shape.keys));
  };
  auto forEachTile = [&](function_ref<void()> body) {
    kernel.loop(0, count, 1, [&](Value place) {
      enterTile(place);
      body();
    });
  };
  order->begin();
  forEachTile([&] { forEachKeyHead([&] { keys.load(); }); });
  emitBlocks([&](function_ref<void()> body) {
    Index block = kernel.div(at.firstQuery, shape.queries);
    Value isBack = kernel.equal(kernel.rem(block, 2), 1);
    kernel.loop(0, count, 1, [&](Value place) {
      Index last = kernel.sub(kernel.sub(count, 1), place);
      enterTile(kernel.select(isBack, last, place));
      body();
    });
  });
  forEachTile([&] { forEachKeyHead([&] { keys.store(); }); });
  order->end();
}

/// The blocks of queries with the tiles at each of which `forEachTile` stands.
void AllHeadsBackwardLoopNest::emitBlocks(
    function_ref<void(function_ref<void()>)> forEachTile) {
  // Sums in f32 are of few terms, but a warp takes long to add them to others.
  auto withSums = [&](bool areAddedHere, function_ref<void()> body) {
    if (areAddedHere)
      point.clearSums();
    body();
    if (areAddedHere)
      point.storeSums();
  };
  withSums(shape.isNear, [&] {
    at.forEachBlock([&](Value firstOfBlock) {
      at.enterBlock(firstOfBlock);
      if (order)
        kernel.when(kernel.equal(at.chunk, at.getCopy()),
                    [&] { clearQueryGradient(); });
      if (unit)
        kernel.store(kernel.constantI64(0), areLoaded);
      withSums(!shape.isNear, [&] {
        forEachTile([&] {
          mask.enterTile();
          Visibility block = mask.classifyRows(firstOfBlock, shape.queries);
          kernel.when(block.some, [&] { emitBlock(); });
        });
      });
      if (order)
        order->endTurn();
    });
  });
}

/// Of the block, of all heads, and behind the last block of its padding. So it
/// is in the cache when the first item of a copy adds to it.
void AllHeadsBackwardLoopNest::clearQueryGradient() {
  Index padded = arguments.getSize(*launch.queryGradient, 3);
  Value isLast = kernel.less(at.getLength(pos::Side::query),
                             kernel.add(at.firstQuery, shape.queries + 1));
  Index rows =
      kernel.select(isLast, kernel.sub(padded, at.firstQuery), shape.queries);
  kernel.loop(0, tiles.heads, 1, [&](Value number) {
    kernel.clear(
        arguments.getAddress(*launch.queryGradient,
                             {at.getCopy(), at.batch, number, at.firstQuery}),
        kernel.mul(rows, shape.headRow));
  });
}

/// Stands at one head of the keys after the other.
void AllHeadsBackwardLoopNest::forEachKeyHead(function_ref<void()> body) {
  kernel.loop(0, arguments.getSize(launch.sites.key, 1), 1, [&](Value number) {
    at.kvHead = number;
    keys.enterHead();
    body();
  });
}

/// Q and dO of all heads, when the first tile of those that are kept needs
/// them: no tile may see some of the block.
void AllHeadsBackwardLoopNest::loadQueries() {
  kernel.when(kernel.equal(kernel.load(kernel.i64, areLoaded), 0), [&] {
    kernel.store(kernel.constantI64(1), areLoaded);
    kernel.loop(0, tiles.heads, 1, [&](Value number) {
      enterHead(number);
      queries.load();
    });
  });
}

void AllHeadsBackwardLoopNest::emitBlock() {
  // Entry of (query, key) in the tables: padding + (Lq - 1 - query) + key. The
  // window begins with the block's last query.
  Index entry = kernel.sub(at.getLength(pos::Side::query), at.firstQuery);
  entry = kernel.add(kernel.add(entry, at.firstKey),
                     launch.sites.offsetTables.padding - shape.queries);
  window.load(at.batch, entry);
  gradientWindow.clear();
  tiles.loadStatistics();
  auto [low, high] = mask.classifyGroups();
  if (unit)
    loadQueries();
  emitProducts(low, high);
  mask.emitLanes(low, high);
  payloads.emit(low, high);
  if (order)
    order->awaitTurn();
  addGradients(low, high);
  gradientWindow.addTo(launch.tableGradients, at.getSum(), at.batch, entry);
}

//===----------------------------------------------------------------------===//
// S and dP
//===----------------------------------------------------------------------===//

AllHeadsBackwardLoopNest::Rows
AllHeadsBackwardLoopNest::prepareRows(unsigned tensor, int64_t row,
                                      bool mustCopy,
                                      const std::optional<RowsApart> &apart,
                                      Value buffer, function_ref<void()> copy) {
  // Threads load several scalars of a copy together.
  if (mustCopy || shape.isNear || !launch.element.isF32()) {
    copy();
    return Rows{buffer, row};
  }
  // The rows of a group must exist.
  Value isCopied =
      kernel.either(kernel.differ(arguments.getStride(tensor, 3), 1),
                    kernel.differ(at.groupEnd, at.queryCount));
  Value base = arguments.getAddress(tensor, {at.batch, at.head, at.firstQuery});
  Index stride = arguments.getStride(tensor, 2);
  if (apart) { // whose rows are whole blocks
    Value areApart = apart->areCopied(kernel, arguments, at.head);
    isCopied = kernel.selectF(areApart, kernel.constantI1(false), isCopied);
    Value inCopy =
        arguments.getAddress(apart->copy, {at.batch, at.head, at.firstQuery});
    base = kernel.selectF(areApart, inCopy, base);
    stride = kernel.select(areApart, row, stride);
  }
  kernel.when(isCopied, [&] { copy(); });
  return Rows{kernel.selectF(isCopied, buffer, base),
              kernel.select(isCopied, row, stride)};
}

AllHeadsBackwardLoopNest::Rows AllHeadsBackwardLoopNest::prepareQueries() {
  bool mustCopy = !launch.plan.queryRows.empty() ||
                  !shape.readsInPlace(shape.headParts) ||
                  form.queryFactor != 1.0;
  return prepareRows(launch.sites.query, shape.headRow, mustCopy,
                     launch.queriesApart, queries.getQueries().rows,
                     [&] { queries.copyQueries(); });
}

AllHeadsBackwardLoopNest::Rows
AllHeadsBackwardLoopNest::prepareOutputGradients() {
  return prepareRows(launch.outputGradients.front(), shape.valueRow,
                     !shape.readsInPlace(shape.valueParts),
                     launch.outputGradientsApart,
                     queries.getOutputGradients().rows,
                     [&] { queries.copyOutputGradients(); });
}

void AllHeadsBackwardLoopNest::emitProduct(const Rows &rows, Value packed,
                                           int64_t dim, Index group,
                                           ValueRange initial, Value to) {
  SmallVector<TileRow> tileRows;
  for (int64_t r = 0; r < shape.rows; ++r)
    tileRows.push_back({kernel.advance(
        rows.base, {kernel.mul(kernel.add(group, r), rows.stride)})});
  RegisterTile tile;
  tile.rows = tileRows;
  tile.base = packed;
  tile.vectorStep = shape.keys;
  tile.vectors = shape.vectors;
  tile.count = dim;
  if (shape.isNear)
    tile.alignment = 16;
  else // half as many addresses of what is asked for meanwhile
    tile.unroll = 8;
  // The rows of the next group, a few lines at a time: a cache that is asked
  // for many at once lets the product wait for them.
  int64_t lines = llvm::divideCeil(dim, cacheLine);
  int64_t together = llvm::divideCeil(shape.rows * lines * tile.unroll, dim);
  Index next = kernel.add(group, shape.rows);
  tile.meanwhile = [&](Index step) {
    Index first = kernel.mul(kernel.div(step, tile.unroll), together);
    for (int64_t number = 0; number < together; ++number) {
      Index line = kernel.add(first, number);
      Index row = kernel.add(next, kernel.div(line, lines));
      kernel.prefetch(rows.base,
                      {kernel.mul(row, rows.stride),
                       kernel.mul(kernel.rem(line, lines), cacheLine)},
                      1, CacheLevel::First);
    }
  };
  Values results = emitTile(kernel, tile, initial);
  for (auto [place, result] : llvm::enumerate(results))
    kernel.storeVector(result, to,
                       {static_cast<int64_t>(place) * kernel.width()});
}

void AllHeadsBackwardLoopNest::emitProducts(Index low, Index high) {
  kernel.loop(0, tiles.heads, 1, [&](Value number) {
    enterHead(number);
    if (unit)
      return unit->emitProducts(low, high);
    Rows query = prepareQueries();
    Rows gradient = prepareOutputGradients();
    Values zeros(shape.rows * shape.vectors, kernel.splatF32(0));
    kernel.loop(low, high, shape.rows, [&](Value group) {
      emitProduct(query, keys.ofHead(keys.getKeys().transposed, shape.headRow),
                  shape.headDim, group, zeros,
                  tiles.getRow(tiles.scores, at.head, group));
      // The accumulators start at -delta.
      Values initial;
      Value from =
          kernel.advance(tiles.delta, {kernel.mul(at.head, shape.queries)});
      for (int64_t r = 0; r < shape.rows; ++r)
        initial.append(shape.vectors, kernel.loadBroadcast(from, {group, r}));
      emitProduct(gradient,
                  keys.ofHead(keys.getValues().transposed, shape.valueRow),
                  shape.valueDim, group, initial,
                  tiles.getRow(tiles.gradients, at.head, group));
    });
  });
}

//===----------------------------------------------------------------------===//
// dV, dK and dQ
//===----------------------------------------------------------------------===//

/// gradient[row lanes][keys] += rows^T times rows [low, high) of `scores`.
void AllHeadsBackwardLoopNest::addKeyGradients(const KeyTile::Operand &packed,
                                               const Rows &rows, Value scores,
                                               Index low, Index high) {
  RegisterTile tile;
  tile.rowStep = rows.stride;
  tile.base = tiles.getRow(scores, at.head, low);
  tile.vectorStep = shape.keys;
  tile.count = kernel.sub(high, low);
  // In place, rows end with the head dim.
  keys.addToGradient(keys.ofHead(packed.gradient, packed.row), tile,
                     kernel.advance(rows.base, {kernel.mul(low, rows.stride)}),
                     llvm::alignTo(packed.dim, shape.rows));
}

void AllHeadsBackwardLoopNest::addGradients(Index low, Index high) {
  Index end = kernel.min(high, at.queryCount);
  kernel.loop(0, tiles.heads, 1, [&](Value number) {
    enterHead(number);
    if (unit)
      return unit->addGradients(low, end);
    Rows gradient = prepareOutputGradients();
    Rows query = prepareQueries();
    addKeyGradients(keys.getValues(), gradient, tiles.scores, low, end);
    addKeyGradients(keys.getKeys(), query, tiles.gradients, low, end);
    addQueryGradient(low, high);
  });
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes].
void AllHeadsBackwardLoopNest::addQueryGradient(Index low, Index high) {
  int64_t row = shape.headRow;
  Value base = arguments.getAddress(
      *launch.queryGradient, {at.getCopy(), at.batch, at.head, at.firstQuery});
  if (shape.unpacksKeys)
    keys.unpackKeys();
  Value slabs = keys.getSlabs();
  kernel.loop(low, high, shape.rows, [&](Value group) {
    Value from = tiles.getRow(tiles.gradients, at.head, group);
    Value to = kernel.advance(base, {kernel.mul(group, row)});
    SmallVector<TileRow> rows = getTileRows(from, shape.rows, shape.keys);
    keys.forEachSlab(slabs, [&](Index lane, int64_t vectors, Value slab) {
      RegisterTile tile = keys.getSlabTile(slab, vectors, 0, at.keyCount);
      tile.rows = rows;
      tile.meanwhile = [&](Index step) { // likewise, a row at a time
        Index next = kernel.add(kernel.div(step, tile.unroll), shape.rows);
        kernel.prefetch(to, {kernel.mul(next, row), lane},
                        vectors * kernel.width(), CacheLevel::First);
      };
      addTile(kernel, tile, kernel.advance(to, {lane}), row);
    });
  });
}

void codegen::createAllHeadsBackwardKernel(const Lowering &lowering,
                                           StringRef suffix,
                                           const BackwardLaunch &launch,
                                           const VectorTarget &target) {
  createBackward<AllHeadsBackwardLoopNest>(lowering, suffix, launch, target);
}
