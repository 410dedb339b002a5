//===- PassingTiles.cpp - Tiles that pass by a block ----------------------===//

#include "codegen/CUDA/Sm80/PassingTiles.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

PassingTiles::PassingTiles(ThreadBuilder &thread, ArgumentBlock &arguments,
                           const FragmentOperands &launch,
                           const ScoreTile &shape, const StageLayout &stages,
                           int64_t lanes)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      point(thread, arguments, launch, shape),
      mask(kernel, arguments, point, launch.plan, launch.sites),
      columnLength(kernel.toI32(arguments.getSize(
          shape.getColumnSide() == pos::Side::key ? launch.sites.key
                                                  : launch.sites.query,
          2))),
      walk(thread, launch.plan, mask, shape, columnLength),
      products(thread, shape), hinges(thread, arguments, point, launch, lanes),
      hingeProduct(thread, point, hinges, launch, shape,
                   FragmentForm(launch.plan).payloadFactor),
      scores(kernel, arguments, point, hinges, hingeProduct, launch, shape),
      shape(shape), stages(stages) {}

Value PassingTiles::getStage(Value place) {
  return thread.getShared(
      thread.add(thread.mul(place, stages.unit), stages.first));
}

void PassingTiles::copyRows(Value first, Value stage, bool areWhole) {
  for (PlacedRows &placed : passing) {
    Value to = thread.advance(stage, placed.bytes);
    if (areWhole)
      placed.rows.copyWhole(first, shape.columns, to);
    else
      placed.rows.copy(first, shape.columns, to);
  }
  point.getWindows().copyVectors(first, getWindows(stage), areWhole);
}

/// Most tiles are whole, and copied without asking what exists of them. A block
/// of few queries waits for memory, not for its instructions: there one copy of
/// the code is enough.
void PassingTiles::copyTile(ValueRange walked, Value place) {
  Value first = getFirstColumn(walked), stage = getStage(place);
  point.getWindows().copyChunks(first, getWindows(stage));
  if (shape.hasTeamsOfRows())
    return copyRows(first, stage, /*areWhole=*/false);
  Value isWhole = walk.isWhole(walked);
  for (const PlacedRows &placed : passing)
    isWhole = kernel.both(isWhole, placed.rows.getAligned());
  kernel.when(
      isWhole, [&] { copyRows(first, stage, /*areWhole=*/true); },
      [&] { copyRows(first, stage, /*areWhole=*/false); });
}

Values PassingTiles::enter(const TileSide &rows, Value first, Value end,
                           Value stage, function_ref<void()> beginCopies) {
  Values walked = walk.advance(walk.begin(rows, first, end));
  kernel.when(walk.isThere(walked), [&] { copyTile(walked, stage); });
  if (beginCopies)
    beginCopies();
  thread.commitCopies();
  return walked;
}

PassingTiles::Carried
PassingTiles::enterTile(const Carried &carried,
                        function_ref<void()> beginCopies) {
  Carried next;
  next.walk = walk.advance(carried.walk);
  next.stage =
      thread.sub(thread.constant(stages.size / stages.unit), carried.stage);
  // The tile is there, and nobody reads the stage of the one before any more.
  thread.waitForCopies(0);
  thread.synchronizeBlock();
  if (beginCopies) {
    beginCopies();
    thread.commitCopies();
  }
  kernel.when(walk.isThere(next.walk),
              [&] { copyTile(next.walk, next.stage); });
  thread.commitCopies();
  point.enterTile(getFirstColumn(carried.walk),
                  getWindows(getStage(carried.stage)));
  hinges.leaveTile();
  next.hinges = carried.hinges;
  if (hingeProduct.exists())
    hingeProduct.enterTile(next.hinges);
  return next;
}
