//===- ForwardKernel.cpp - The forward on tensor cores --------------------===//

#include "codegen/CUDA/Sm80/ForwardKernel.h"
#include "codegen/CUDA/Sm80/BlockHeads.h"
#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentOutput.h"
#include "codegen/CUDA/Sm80/KeyParts.h"
#include "codegen/CUDA/Sm80/PassingTiles.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Tiles of queries of all heads before further ones: of a causal mask, whose
/// last tile is the longest and comes first, the shortest items are left for
/// the end, when blocks find no other ones.
static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const ForwardOperands &launch) {
  unsigned query = launch.sites.query;
  auto size = [&](unsigned dim) {
    return asShort(kernel, arguments.getSize(query, dim));
  };
  return ItemSpace(
      kernel,
      {asShort(kernel, kernel.ceilDiv(size(2), launch.tile.countRows())),
       size(0),
       asShort(kernel, BlockHeads::countBlocks(kernel, arguments, launch)),
       asShort(kernel, arguments.getScalar(launch.splits))});
}

namespace {
/// Writes one item at the insertion point of `kernel`.
class FragmentForward : PassingTiles {
public:
  /// `lanes`: of the vectors that tables are written in.
  FragmentForward(ThreadBuilder &thread, ArgumentBlock &arguments,
                  const ForwardOperands &launch, int64_t lanes);

  /// `block` counts those with heads of their own, `number` the tiles of
  /// queries of a head.
  void emit(Index batch, Index block, Index number, Index split);

private:
  struct Carried : PassingTiles::Carried {
    FragmentSoftmax::State softmax;
    Values output;

    SmallVector<MutableArrayRef<Value>> getParts() {
      return {walk, stage, hinges, softmax.maxima, softmax.sums, output};
    }
  };

  std::pair<Value, Value> getTiles(Index split);
  void enterHeads(Index batch, Value firstQuery);
  void copyQueries(Index batch, Value firstQuery);
  Carried emitTile(Carried carried);

  const ForwardOperands &launch;
  const ForwardTile &tile;
  FragmentSoftmax softmax;
  FragmentOutput output;
  BlockHeads heads;
};
} // namespace

FragmentForward::FragmentForward(ThreadBuilder &thread,
                                 ArgumentBlock &arguments,
                                 const ForwardOperands &launch, int64_t lanes)
    : PassingTiles(thread, arguments, launch, launch.tile,
                   {launch.tile.getStage(), launch.tile.getStageBytes(),
                    launch.tile.getWindows(), /*unit=*/1},
                   lanes),
      launch(launch), tile(launch.tile),
      softmax(thread, tile, scores.getForm()),
      output(thread, arguments, point, launch),
      heads(thread, arguments, launch, point) {
  staying.push_back({getRows(launch.query, tile.query), 0});
  passing.push_back({getRows(launch.key, tile.query), 0});
  for (auto [number, shape] : llvm::enumerate(tile.values))
    passing.push_back(
        {getRows(launch.values[number], shape), tile.getValues(number)});
}

void FragmentForward::enterHeads(Index batch, Value firstQuery) {
  point.enterRows(batch, heads.head, firstQuery);
  output.enterHead(
      kernel.both(heads.isOwn, kernel.equal(kernel.fromI32(thread.part), 0)));
  for (PlacedRows &placed : passing)
    placed.rows.enterHead(batch, heads.keyHead);
}

/// Those of one warp after the other, of whichever head they are, or of all
/// rows at once where each may have a head of its own. Rows behind all teams
/// are those of some head: they are computed, and stored nowhere.
void FragmentForward::copyQueries(Index batch, Value firstQuery) {
  SharedRows &rows = staying.front().rows;
  if (tile.hasTeamsOfRows())
    return rows.copyOfHeads(
        batch, tile.countRows(), getShared(0), [&](Value row) {
          return std::pair(heads.getHead(row),
                           thread.add(firstQuery, heads.getQuery(row)));
        });
  int64_t count = tile.countWarpRows();
  thread.loopWhile(
      thread.constant(0),
      [&](ValueRange at) {
        return thread.less(at[0], thread.constant(tile.countRows() / count));
      },
      [&](ValueRange at) -> Values {
        rows.enterHead(batch, heads.getHead(at[0]));
        Value to = thread.advance(
            getShared(0), thread.mul(at[0], count * tile.query.getBytes()));
        rows.copy(thread.add(firstQuery, point.getFirstRow(at[0])), count, to);
        return {thread.add(at[0], 1)};
      });
}

FragmentForward::Carried FragmentForward::emitTile(Carried carried) {
  PassingTiles::Carried next = enterTile(carried);
  Value stage = getStage(carried.stage);
  Values tileScores(tile.countScores(), kernel.constantF32(0));
  products.multiply({getShared(0)}, {stage}, tile.query, tileScores);
  tileScores = scores.emit(tileScores, walk.isVisible(carried.walk));
  softmax.update(carried.softmax, tileScores, scores.getAddend(),
                 [&](const FragmentSoftmax::Scaling &scaling) {
                   output.scale(carried.output, scaling);
                 });
  for (auto [value, shape] : llvm::enumerate(tile.values))
    products.addRows(tileScores, {stage, tile.getValues(value)}, shape,
                     output.getSums(carried.output, value));
  static_cast<PassingTiles::Carried &>(carried) = next;
  return carried;
}

/// The tiles of keys of a split, those of the thread's part of the block.
std::pair<Value, Value> FragmentForward::getTiles(Index split) {
  Index tiles =
      kernel.ceilDiv(arguments.getSize(launch.sites.key, 2), tile.columns);
  Index each = kernel.ceilDiv(
      tiles, kernel.mul(arguments.getScalar(launch.splits), tile.parts));
  Index part =
      kernel.add(kernel.mul(split, tile.parts), kernel.fromI32(thread.part));
  Index first = kernel.min(kernel.mul(part, each), tiles);
  return {kernel.toI32(first),
          kernel.toI32(kernel.min(kernel.add(first, each), tiles))};
}

void FragmentForward::emit(Index batch, Index block, Index number,
                           Index split) {
  Index first = kernel.mul(number, tile.countRows());
  Value firstQuery = kernel.toI32(first);
  heads.enter(block);
  enterHeads(batch, firstQuery);
  // Nobody reads the rows of the item before any more, or what parts had of it.
  thread.synchronizeBlock(/*ofAllParts=*/true);
  Index count =
      kernel.min(tile.countRows(),
                 kernel.sub(arguments.getSize(launch.sites.query, 2), first));
  TileSide side = mask.enter(pos::Side::query, first, count, tile.countRows());

  Carried start;
  start.stage = thread.constant(0);
  if (hingeProduct.exists())
    start.hinges = hingeProduct.enterHead();
  start.softmax = softmax.begin();
  start.output.assign(output.countSums(), kernel.constantF32(0));
  auto [firstTile, endTile] = getTiles(split);
  Carried end = passTiles<Carried>(
      start, side, firstTile, endTile,
      [&](Carried carried) { return emitTile(std::move(carried)); },
      [&] { copyQueries(batch, firstQuery); });
  // Without a tile the queries are still to come.
  thread.waitForCopies(0);
  SmallVector<FragmentSoftmax::Row> rows = softmax.finish(end.softmax);
  KeyParts(thread, tile.parts).join(rows, end.output, output);
  kernel.when(
      kernel.equal(arguments.getScalar(launch.splits), 1),
      [&] { output.store(batch, heads.head, end.output, rows); },
      [&] { output.storeSplit(split, batch, heads.head, end.output, rows); });
}

void codegen::createFragmentForward(const Lowering &lowering, StringRef suffix,
                                    const ForwardOperands &launch) {
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return getItems(kernel, arguments, launch);
  };
  auto run = [&](ThreadBuilder &thread, ArgumentBlock &arguments,
                 const Items &items) {
    KernelBuilder &kernel = thread.kernel;
    FragmentForward emitter(thread, arguments, launch, lowering.target.width);
    Index tiles = kernel.ceilDiv(arguments.getSize(launch.sites.query, 2),
                                 launch.tile.countRows());
    items.forEach([&](const Item &item) {
      Index number = kernel.sub(kernel.sub(tiles, 1), item[0]);
      emitter.emit(item[1], item[2], number, item[3]);
    });
  };
  createBlockKernel(lowering, suffix, launch.layout, launch.tile.getBlock(),
                    {items, run, launch.tile.countScores()});
}
