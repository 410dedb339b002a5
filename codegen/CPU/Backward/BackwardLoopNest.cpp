//===- BackwardLoopNest.cpp - The loop nest of the backward ---------------===//
//
// Lanes are keys. One work item is (batch, head of the keys, chunk of key
// tiles, part of the blocks of queries); its tiles run in order:
//
//   for each tile of keys:
//     K and V: copied as rows, packed as K^T and V^T, and K in slabs of the
//       lanes that a register tile of dQ has; clear dK^T, dV^T
//     for each query head of the group:
//       for each block of queries (the first tile clears its sums) that the
//       tile's keys are not hidden from:
//         Q and dO: copied as rows
//         for each panel of keys:
//           for each group of rows: S, P; dP - delta, dS
//           dV^T += dO^T P; dK^T += Q^T dS
//         dQ += dS K, slab by slab, read and written in the chunk's own sum
//         sums of the score payload's gradients
//     dK, dV: transposed into rows, row maps pulled back
//
// What a tile keeps stays in the second cache; Q, dO and dQ pass once per tile
// from beyond it (CacheTraffic.h counts them). Each cell, of a group of rows
// and a panel of keys, asks for its share of those that come next.
//
// S, dP, dV, dK and dQ are calls of one register tile. Hidden cells are zero in
// the buffers, and products leave out hidden groups and panels at both ends of
// a block.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Backward/BackwardLoopNest.h"
#include "codegen/CPU/Backward/BackwardCell.h"
#include "codegen/CPU/Backward/BackwardKeyBand.h"
#include "codegen/CPU/Backward/BackwardOffsetBand.h"
#include "codegen/CPU/Backward/BackwardSweeps.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tiles/OffsetTile.h"
#include "codegen/Tiles/PiecewiseLinearTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

namespace {
class BackwardLoopNest {
public:
  explicit BackwardLoopNest(BackwardItem &at);

  void emitItem();

private:
  void clearSums(Index firstHead, Index group);
  void clearInPlaceGradients();
  void emitTiles(Index firstHead, Index group);
  void emitHead();
  void emitBlock(Value isWhole);
  TileSide enterPanel(Index panel);
  void multiplyPanels();
  Value getHull(Index panel, int64_t end);
  Values emitGroup(Index group, Index panel, const TileSide &panelKeys,
                   Value isWhole, ValueRange hull);
  void addKeyGradients(Index panel, SeenPanels::Range<Index> groups);
  void addKeyGradients(const KeyTile::Operand &packed,
                       const QueryBlock::Operand &streamed, Value scores,
                       int64_t stride, Index panel,
                       SeenPanels::Range<Index> groups);
  void addKeyTiles(int64_t row, Value columns, Value pairs, Value gradient,
                   SeenPanels::Range<Index> groups);
  void addQueryTiles();
  void clearQueryGradient();
  void clearProductGradients();
  void addQueryGradient();
  /// Whether blocks are whole ones of the padding, which pullbacks of products
  /// read.
  bool clearsBlocks() const {
    return shape.queries == BackwardShape::paddedRows;
  }

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  ArgumentBlock &arguments = at.arguments;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  ScoreForm form;
  BackwardPoint point;
  BackwardVisibility visibility;
  OffsetTile cells;
  PiecewiseLinearTile hinges;
  KeyTile keys;
  QueryBlock queries;
  GradientSums sums;
  BackwardCell cell;
  BackwardSweeps sweeps;
  SeenPanels panels;
  BackwardOffsetBand queryBand;
  BackwardKeyBand keyBand;
  Value hulls;       ///< tiled: see getHull
  Value isLaterTile; ///< than the item's first one
};
} // namespace

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

BackwardLoopNest::BackwardLoopNest(BackwardItem &at)
    : at(at), form(launch.plan, shape.dot), point(kernel, arguments, launch),
      visibility(at, point),
      cells(kernel, arguments, launch.plan, launch.sites,
            at.reserve(getCellHoists(launch.plan).size() * shape.rows *
                       shape.panel),
            shape.rows, shape.vectors),
      hinges(kernel, arguments, launch.plan, launch.sites,
             at.reserve(PiecewiseLinearTile::countWords(
                 launch.plan, shape.rows * shape.panel)),
             shape.rows, shape.vectors, /*hasGradients=*/true),
      keys(at, form), queries(at, form), sums(at, point),
      cell(at, keys, queries, point, visibility, sums, form), sweeps(at, point),
      panels(at), queryBand(at, point, panels), keyBand(at, point, panels) {
  point.setCells(&cells);
  point.setHinges(&hinges);
  if (shape.isTiled)
    hulls = at.reserve(4 * shape.panels);
  const KernelPlan &plan = launch.plan;
  if (plan.rowTables.empty() && plan.weightedRows.empty() && plan.scans.empty())
    return;
  Value sums = at.reserve(plan.scans.size() * shape.rows * shape.panel);
  point.scans.setMemory(sums);
  point.products.setMemory(at.reserve(2 * kernel.width()));
}

void BackwardLoopNest::emitItem() {
  Index keyHeads = arguments.getSize(launch.sites.key, 1);
  Index group = kernel.div(arguments.getSize(launch.sites.query, 1), keyHeads);
  point.enterItem(at);
  keys.enterHead();
  Index firstHead = kernel.mul(at.kvHead, group);
  clearSums(firstHead, group);
  sweeps.forEach(firstHead, group, [&] { emitTiles(firstHead, group); });
}

/// Clears what the item adds to, of the query heads of its group, but what the
/// first tile clears block by block, if there is one.
void BackwardLoopNest::clearSums(Index firstHead, Index group) {
  auto clearRows = [&] {
    at.clearRows(*launch.queryGradient, firstHead, group);
    if (clearsBlocks())
      for (unsigned tensor : launch.getClearedSums())
        at.clearRows(tensor, firstHead, group);
  };
  kernel.when(
      kernel.less(at.getFirstKey(), at.getLength(pos::Side::key)), [] {},
      clearRows);
  clearInPlaceGradients();
  if (!clearsBlocks())
    for (unsigned tensor : launch.getClearedSums())
      at.clearRows(tensor, firstHead, group);
  queryBand.clear(firstHead, group);
  keyBand.clear();
}

/// The item's partial sums of what is read where tables do not hold the
/// offsets in use.
void BackwardLoopNest::clearInPlaceGradients() {
  if (launch.inPlaceGradients.empty())
    return;
  OffsetRange range(kernel, arguments, *launch.sites.offsetRange);
  kernel.when(
      range.emitHasTables(), [] {},
      [&] {
        for (unsigned tensor : launch.inPlaceGradients) {
          Index entries = arguments.getSize(tensor, 3);
          Value sums =
              arguments.getAddress(tensor, {at.getSum(), at.batch, at.kvHead});
          kernel.loop(0, entries, kernel.width(), [&](Value entry) {
            kernel.storePart(
                kernel.zero(kernel.vf64),
                kernel.advance(sums, {entry}, kernel.f64),
                kernel.min(kernel.width(), kernel.sub(entries, entry)));
          });
        }
      });
}

//===----------------------------------------------------------------------===//
// Loop nest
//===----------------------------------------------------------------------===//

/// All tiles of the chunk. With scans there is one chunk.
void BackwardLoopNest::emitTiles(Index firstHead, Index group) {
  Index chunks = arguments.getSize(*launch.queryGradient, 0);
  Index keyLength = at.getLength(pos::Side::key);
  kernel.loop(at.getFirstKey(), keyLength, kernel.mul(chunks, shape.keys),
              [&](Value first) {
                at.enterTile(sweeps.inOrder(first, keyLength, shape.keys));
                isLaterTile = kernel.less(at.getFirstKey(), first);
                keys.load();
                keyBand.loadTile();
                kernel.loop(firstHead, kernel.add(firstHead, group), 1,
                            [&](Value head) {
                              at.head = head;
                              emitHead();
                            });
                sweeps.forGradients([&] {
                  keyBand.endTile();
                  keys.store();
                });
              });
}

void BackwardLoopNest::emitHead() {
  point.enterHead(at.batch, at.head);
  queries.enterHead();
  TileSide keySide = visibility.enter(pos::Side::key, at.firstKey, shape.keys);
  at.forEachBlock([&](Value first) {
    at.enterBlock(first);
    sweeps.forBlock([&] {
      Visibility block = visibility.classify(
          visibility.enter(pos::Side::query, first, shape.queries),
          kernel.add(first, shape.queries), keySide,
          kernel.add(at.firstKey, kernel.mul(at.panelCount, shape.panel)));
      clearProductGradients();
      kernel.when(
          sweeps.emitRest(block.some), [&] { emitBlock(block.all); },
          [&] { clearQueryGradient(); });
    });
  });
}

void BackwardLoopNest::emitBlock(Value isWhole) {
  queries.load();
  queryBand.load();
  keyBand.load();
  panels.clear();
  if (shape.isTiled)
    multiplyPanels();
  kernel.loop(0, at.panelCount, 1, [&](Value step) {
    Index panel = sweeps.inOrder(step, at.panelCount, 1);
    TileSide panelKeys = enterPanel(panel);
    keyBand.enterPanel(panel);
    // The groups of rows that see some of the panel lie in [low, high).
    Values hull =
        kernel.loop(0, at.groupEnd, shape.rows,
                    {kernel.value(at.groupEnd), kernel.constantI64(0)},
                    [&](Value group, ValueRange hull) {
                      return emitGroup(group, panel, panelKeys, isWhole, hull);
                    });
    if (sweeps.isForTotals())
      return;
    if (shape.isTiled)
      for (int64_t end : {0, 1})
        kernel.store(hull[end], getHull(panel, end));
    else
      addKeyGradients(panel, {hull[0], hull[1]});
  });
  if (sweeps.isForTotals())
    return;
  if (shape.isTiled)
    kernel.loop(0, at.panelCount, 1, [&](Value panel) {
      addKeyGradients(panel, {kernel.load(kernel.i64, getHull(panel, 0)),
                              kernel.load(kernel.i64, getHull(panel, 1))});
    });
  clearQueryGradient();
  addQueryGradient();
  queryBand.addGradients();
  keyBand.addGradients();
  sums.emitBlock(cell.getTiles().gradientTile);
}

TileSide BackwardLoopNest::enterPanel(Index panel) {
  return visibility.enter(
      pos::Side::key, kernel.add(at.firstKey, kernel.mul(panel, shape.panel)),
      shape.panel);
}

/// S and dP of the panels of which the block sees some: of all before a cell,
/// as are all products behind the cells, since a matrix unit that has rested is
/// slow for a while (ForwardLaunch::panelsTogether).
void BackwardLoopNest::multiplyPanels() {
  TileSide blockRows =
      visibility.enter(pos::Side::query, at.firstQuery, shape.queries);
  kernel.loop(0, at.panelCount, 1, [&](Value panel) {
    TileSide panelKeys = enterPanel(panel);
    Visibility seen = visibility.classify(
        blockRows, kernel.add(blockRows.first, shape.queries), panelKeys,
        kernel.add(panelKeys.first, shape.panel));
    kernel.when(seen.some, [&] { cell.multiplyPanel(panel); });
  });
}

/// One end of the groups of rows that see some of a panel.
Value BackwardLoopNest::getHull(Index panel, int64_t end) {
  return kernel.advance(hulls, {kernel.mul(panel, 2), end}, kernel.i64);
}

/// Writes a group of rows at a panel; gives the hull of the groups that see it.
Values BackwardLoopNest::emitGroup(Index group, Index panel,
                                   const TileSide &panelKeys, Value isWhole,
                                   ValueRange hull) {
  Index query = kernel.add(at.firstQuery, group);
  Index key = panelKeys.first;
  Visibility seen = visibility.classify(
      visibility.enter(pos::Side::query, query, shape.rows),
      kernel.add(query, shape.rows), panelKeys, kernel.add(key, shape.panel));
  if (shape.countQueriesTogether() > shape.rows) // a group may have no query
    seen.some = kernel.both(seen.some,
                            kernel.less(query, at.getLength(pos::Side::query)));
  point.enterCell(query, key);
  queries.prefetchShare(group, panel);
  auto emitCell = [&] {
    cell.emit(group, panel, kernel.either(isWhole, seen.all));
    if (!sweeps.isForTotals())
      hinges.addMoments(at.batch, at.head, at.getHingeMoments());
  };
  return kernel.choose(
      kernel.either(isWhole, seen.some), {kernel.i64, kernel.i64},
      [&]() -> Values {
        auto moveTo = [&](Index row, Index vector) {
          point.setPoint(row, vector);
        };
        cells.fill(point, moveTo);
        hinges.fill(point, moveTo);
        queryBand.emitProducts(group, panel);
        keyBand.emitProducts(group, panel);
        sweeps.emitCell(group, emitCell);
        panels.add(group, panel);
        return {kernel.value(kernel.min(Index(hull[0]), group)),
                kernel.value(kernel.add(group, shape.rows))};
      },
      [&]() -> Values {
        SmallVector<Value> tiles = queryBand.getTiles();
        llvm::append_range(tiles, keyBand.getTiles());
        cell.clear(group, panel, tiles);
        return {hull[0], hull[1]};
      });
}

/// In the first tile, of the block: when it is added to it comes from the first
/// cache, and from beyond the second one once less than if all of it were
/// cleared at the beginning.
void BackwardLoopNest::clearQueryGradient() {
  if (!sweeps.isForTotals())
    kernel.when(
        isLaterTile, [] {}, [&] { at.clearBlock(*launch.queryGradient); });
}

/// Likewise what cells add to.
void BackwardLoopNest::clearProductGradients() {
  SmallVector<unsigned> sums = launch.getClearedSums();
  if (!sweeps.isForTotals() && clearsBlocks() && !sums.empty())
    kernel.when(
        isLaterTile, [] {},
        [&] {
          for (unsigned tensor : sums)
            at.clearBlock(tensor);
        });
}

//===----------------------------------------------------------------------===//
// Products of the second half
//===----------------------------------------------------------------------===//

/// dV and dK of a panel, of the groups of rows that see some of it.
void BackwardLoopNest::addKeyGradients(Index panel,
                                       SeenPanels::Range<Index> groups) {
  const BlockTiles &tiles = cell.getTiles();
  kernel.when(kernel.less(groups.low, groups.high), [&] {
    addKeyGradients(keys.getValues(), queries.getOutputGradients(),
                    tiles.probabilities, shape.probabilityStride, panel,
                    groups);
    addKeyGradients(keys.getKeys(), queries.getQueries(), tiles.scoreGradients,
                    shape.stride, panel, groups);
  });
}

/// gradient[row lanes][keys] += columns^T times the rows of `scores` of some
/// groups.
void BackwardLoopNest::addKeyGradients(const KeyTile::Operand &packed,
                                       const QueryBlock::Operand &streamed,
                                       Value scores, int64_t stride,
                                       Index panel,
                                       SeenPanels::Range<Index> groups) {
  // A step of the contraction is a row, or a pair of rows.
  if (shape.dot)
    stride = shape.keys;
  Value gradient = kernel.advance(
      packed.gradient, {kernel.mul(panel, packed.row * shape.panel)});
  if (shape.isTiled)
    return addKeyTiles(packed.row, streamed.columns,
                       kernel.advance(scores, {kernel.mul(panel, shape.panel)}),
                       gradient, groups);
  Index firstStep = kernel.div(groups.low, shape.perStep());
  Value columns =
      kernel.advance(streamed.columns, {kernel.mul(firstStep, packed.row)});
  RegisterTile tile;
  tile.rowStep = packed.row;
  tile.base = kernel.advance(
      scores, {kernel.mul(firstStep, stride), kernel.mul(panel, shape.panel)});
  tile.vectorStep = stride;
  tile.count = kernel.div(kernel.sub(groups.high, groups.low), shape.perStep());
  tile.isWhole = true;
  keys.addToGradient(gradient, tile, columns, packed.row);
}

/// The same on a matrix unit, of `pairs` that begin at the panel.
void BackwardLoopNest::addKeyTiles(int64_t row, Value columns, Value pairs,
                                   Value gradient,
                                   SeenPanels::Range<Index> groups) {
  auto [first, end] = UnitSteps(kernel, groups.low, groups.high);
  UnitProduct product;
  product.a = kernel.advance(columns, {first});
  product.aStride = shape.queries / 2;
  product.b = kernel.advance(pairs, {kernel.mul(first, shape.keys)});
  product.bStride = shape.keys;
  product.sums = gradient;
  product.stride = shape.panel;
  product.rows = row;
  product.words = kernel.sub(end, first);
  product.adds = true;
  if (shape.hasTerms())
    product.terms = {shape.countTermWords(row),
                     shape.countTermWords(shape.keys)};
  emitUnitProduct(kernel, product);
}

/// dQ on a matrix unit: all rows of the block at once.
void BackwardLoopNest::addQueryTiles() {
  int64_t perPanel = shape.panel / 2;
  auto [low, high] = panels.getOfBlock();
  Index first = kernel.mul(low, perPanel);
  Value base = arguments.getAddress(
      *launch.queryGradient, {at.chunk, at.batch, at.head, at.firstQuery});
  UnitProduct product;
  product.a = kernel.advance(cell.getTiles().scoreGradientRows, {first});
  product.aStride = shape.keys / 2;
  product.stride = shape.headRow;
  product.rows = at.groupEnd;
  product.words = kernel.mul(kernel.sub(high, low), perPanel);
  product.adds = true;
  if (shape.hasTerms())
    product.terms = {shape.countTermWords(shape.keys),
                     shape.countSlabTermWords()};
  auto addSlab = [&](Index lane, int64_t vectors, Value slab) {
    int64_t columns = vectors * kernel.width(); // rows of K are padded to them
    assert(columns == UnitProduct::block);
    product.b = kernel.advance(slab, {kernel.mul(first, columns)});
    product.bStride = columns;
    product.sums = kernel.advance(base, {lane});
    emitUnitProduct(kernel, product);
  };
  kernel.when(kernel.less(low, high),
              [&] { keys.forEachSlab(keys.getSlabs(), addSlab); });
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes], slab by slab: a slab of K
/// stays in the first cache while rows of dS pass.
void BackwardLoopNest::addQueryGradient() {
  if (shape.isTiled)
    return addQueryTiles();
  int64_t row = shape.headRow, perStep = shape.perStep();
  int64_t stride = shape.dot ? shape.keys / 2 : shape.stride;
  Value base = arguments.getAddress(
      *launch.queryGradient, {at.chunk, at.batch, at.head, at.firstQuery});
  keys.forEachSlab(
      keys.getSlabs(), [&](Index lane, int64_t vectors, Value slab) {
        kernel.loop(0, at.groupEnd, shape.rows, [&](Value group) {
          auto [low, high] = panels.get(group);
          Index firstStep = kernel.mul(low, shape.panel / perStep);
          Value scores = kernel.advance(cell.getTiles().scoreGradientRows,
                                        {kernel.mul(group, stride), firstStep});
          SmallVector<TileRow> rows = getTileRows(scores, shape.rows, stride);
          kernel.when(kernel.less(low, high), [&] {
            RegisterTile tile = keys.getSlabTile(
                slab, vectors, firstStep,
                kernel.mul(kernel.sub(high, low), shape.panel / perStep));
            tile.rows = rows;
            tile.isWhole = true;
            tile.pairs = shape.dot;
            addTile(kernel, tile,
                    kernel.advance(base, {kernel.mul(group, row), lane}), row);
          });
        });
      });
}

void codegen::createBackwardKernel(const Lowering &lowering, StringRef suffix,
                                   const BackwardLaunch &launch,
                                   const VectorTarget &target) {
  createBackward<BackwardLoopNest>(lowering, suffix, launch, target);
}
