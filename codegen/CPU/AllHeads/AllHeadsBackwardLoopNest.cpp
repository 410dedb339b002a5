//===- AllHeadsBackwardLoopNest.cpp - Backward of scores of all heads -----===//
//
// Lanes are keys. One work item is (batch, chunk of key tiles, part of the
// blocks of queries); a tile of keys is one panel of all heads, and as many are
// kept as a second cache has room for, since Q, dO and dQ pass once for all of
// them (CacheTraffic.h):
//
//   for each few tiles of keys:
//     K and V of all heads: packed as K^T and V^T; clear dK^T, dV^T; before, of
//       the tiles that were in their place, dK and dV of all heads: transposed
//       into rows, row maps pulled back
//     for each block of queries (the first tiles clear its dQ), for each of the
//       tiles that see some of it, back and forth:
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
//
// A matrix unit makes the products of bf16 (AllHeadsUnitProducts.h). It reads Q
// and dO of all heads from copies, which the tiles that are kept share.
//
// Items share dQ, of which each chunk has its own, and where queries are cut dK
// and dV, of which each part has its own.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/AllHeads/AllHeadsBackwardLoopNest.h"
#include "codegen/CPU/AllHeads/AllHeadsBlock.h"
#include "codegen/CPU/AllHeads/AllHeadsUnitProducts.h"

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
  void emitPasses(Index step);
  void emitBlocks(Index first,
                  function_ref<void(function_ref<void()>)> forEachTile);
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
  Index chunks = arguments.getSize(*launch.queryGradient, 0);
  at.kvHead = 0;
  point.enterItem(at);
  point.enterHead(at.batch, Index(0));
  maskPoint.enterHead(at.batch, Index(0));
  auto clearAll = [&] { at.clearRows(*launch.queryGradient, 0, tiles.heads); };
  if (launch.keyRows)
    clearAll();
  else
    kernel.when(
        kernel.less(at.getFirstKey(), at.getLength(pos::Side::key)), [] {},
        clearAll);
  Index step = kernel.mul(chunks, shape.keys);
  if (shape.tiles > 1)
    return emitPasses(step);
  kernel.loop(at.getFirstKey(), at.getLength(pos::Side::key), step,
              [&](Value first) {
                at.place = 0;
                at.enterTile(first);
                forEachKeyHead([&] { keys.load(); });
                emitBlocks(first, [](function_ref<void()> body) { body(); });
                forEachKeyHead([&] { keys.store(); });
              });
}

/// Passes over the queries, each with the tiles that are kept at once, `step`
/// apart. What goes through the tiles goes back and forth, so that it begins
/// with what the cache holds for sure: blocks, and between passes the turn, in
/// which the tiles of one are stored and those of the next are loaded.
void AllHeadsBackwardLoopNest::emitPasses(Index step) {
  Index length = at.getLength(pos::Side::key);
  Index begin = at.getFirstKey(), keysOfPass = kernel.mul(step, shape.tiles);
  auto countTiles = [&](Index first) {
    Index rest = kernel.max(kernel.sub(length, first), 0);
    return kernel.min(shape.tiles, kernel.ceilDiv(rest, step));
  };
  auto enterTile = [&](Index first, Index place) {
    at.place = place;
    at.enterTile(kernel.add(first, kernel.mul(place, step)));
  };
  auto backAndForth = [&](Index count, Index time,
                          function_ref<void(Index)> body) {
    Value isBack = kernel.equal(kernel.rem(time, 2), 1);
    kernel.loop(0, count, 1, [&](Value place) {
      Index last = kernel.sub(kernel.sub(count, 1), place);
      body(kernel.select(isBack, last, place));
    });
  };
  Index blocks = kernel.ceilDiv(at.getLength(pos::Side::query), shape.queries);
  // After the last pass there is one more turn.
  kernel.loop(
      begin, kernel.add(length, keysOfPass), keysOfPass, [&](Value first) {
        Index before = kernel.sub(first, keysOfPass);
        Index count = countTiles(first);
        Index countBefore =
            kernel.select(kernel.less(before, begin), 0, countTiles(before));
        Index turn =
            kernel.mul(kernel.div(kernel.sub(first, begin), keysOfPass),
                       kernel.add(blocks, 1));
        backAndForth(kernel.max(count, countBefore), turn, [&](Index place) {
          kernel.when(kernel.less(place, countBefore), [&] {
            enterTile(before, place);
            forEachKeyHead([&] { keys.store(); });
          });
          kernel.when(kernel.less(place, count), [&] {
            enterTile(first, place);
            forEachKeyHead([&] { keys.load(); });
          });
        });
        kernel.when(kernel.less(0, count), [&] {
          emitBlocks(first, [&](function_ref<void()> body) {
            Index block = kernel.div(at.firstQuery, shape.queries);
            backAndForth(count, kernel.add(kernel.add(turn, 1), block),
                         [&](Index place) {
                           enterTile(first, place);
                           body();
                         });
          });
        });
      });
}

/// The blocks of queries with the tiles from key `first` on, at each of which
/// `forEachTile` stands.
void AllHeadsBackwardLoopNest::emitBlocks(
    Index first, function_ref<void(function_ref<void()>)> forEachTile) {
  // Sums in f32 are of few terms, but a warp takes long to add them to others.
  auto withSums = [&](bool areAddedHere, function_ref<void()> body) {
    if (areAddedHere)
      point.clearSums();
    body();
    if (areAddedHere)
      point.storeSums();
  };
  Value areFirst = kernel.equal(first, at.getFirstKey());
  withSums(shape.isNear, [&] {
    at.forEachBlock([&](Value firstOfBlock) {
      at.enterBlock(firstOfBlock);
      if (!launch.keyRows)
        kernel.when(areFirst, [&] { clearQueryGradient(); });
      if (unit)
        kernel.store(kernel.constantI64(0), areLoaded);
      withSums(!shape.isNear, [&] {
        forEachTile([&] {
          mask.enterTile();
          Visibility block = mask.classifyRows(firstOfBlock, shape.queries);
          kernel.when(block.some, [&] { emitBlock(); });
        });
      });
    });
  });
}

/// Of the block, of all heads, and behind the last block of its padding. So it
/// is in the cache when the first tiles add to it.
void AllHeadsBackwardLoopNest::clearQueryGradient() {
  Index padded = arguments.getSize(*launch.queryGradient, 3);
  Value isLast = kernel.less(at.getLength(pos::Side::query),
                             kernel.add(at.firstQuery, shape.queries + 1));
  Index rows =
      kernel.select(isLast, kernel.sub(padded, at.firstQuery), shape.queries);
  kernel.loop(0, tiles.heads, 1, [&](Value number) {
    kernel.clear(
        arguments.getAddress(*launch.queryGradient,
                             {at.chunk, at.batch, number, at.firstQuery}),
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
  for (int64_t r = shape.rows; r < 2 * shape.rows; ++r)
    kernel.prefetch(rows.base, {kernel.mul(kernel.add(group, r), rows.stride)},
                    dim, CacheLevel::First);
  RegisterTile tile;
  tile.rows = tileRows;
  tile.base = packed;
  tile.vectorStep = shape.keys;
  tile.vectors = shape.vectors;
  tile.count = dim;
  if (shape.isNear)
    tile.alignment = 16;
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
      *launch.queryGradient, {at.chunk, at.batch, at.head, at.firstQuery});
  if (shape.unpacksKeys)
    keys.unpackKeys();
  Value slabs = keys.getSlabs();
  kernel.loop(low, high, shape.rows, [&](Value group) {
    Value from = tiles.getRow(tiles.gradients, at.head, group);
    Value to = kernel.advance(base, {kernel.mul(group, row)});
    SmallVector<TileRow> rows = getTileRows(from, shape.rows, shape.keys);
    kernel.prefetch(to, {shape.rows * row}, shape.rows * row,
                    CacheLevel::First);
    keys.forEachSlab(slabs, [&](Index lane, int64_t vectors, Value slab) {
      RegisterTile tile = keys.getSlabTile(slab, vectors, 0, at.keyCount);
      tile.rows = rows;
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
