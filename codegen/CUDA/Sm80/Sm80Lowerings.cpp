//===- Sm80Lowerings.cpp - Attention on tensor cores ----------------------===//
//
// Tables of hoisted values are those of every target. What a plan asks for that
// has no kernel here is an obstacle, not an error: kernels of warps compute it.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/BlockHeads.h"
#include "codegen/CUDA/Sm80/ForwardKernel.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/JoinSplits.h"
#include "codegen/Tiles/RowParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether row maps may make numbers that the type of rows does not hold, which
/// kernels of warps keep in f32: they grow with the positions, up to a span
/// that f32 allows.
static bool areMapsTooWide(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  return getRowElement(plan).isF16() && !owner.getSitesRegion().empty() &&
         !owner.getSitesRegion().front().getOps<pos::RequireSpanOp>().empty();
}

/// Whether integers, such as positions, become numbers in a hoisted value, or
/// in one that it uses.
static bool makesNumbersOfIntegers(pos::HoistOp hoist) {
  return hoist
      ->walk([](Operation *op) {
        bool makes = isa<arith::SIToFPOp, arith::UIToFPOp>(op);
        for (Value value : op->getOperands())
          if (auto used = value.getDefiningOp<pos::HoistOp>())
            makes = makes || makesNumbersOfIntegers(used);
        return makes ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether columns may be numbers that the type of rows does not hold, since
/// positions are among what they are made of.
static bool areColumnsTooWide(const KernelPlan &plan) {
  return getRowElement(plan).isF16() &&
         llvm::any_of(plan.columns, [](const RowColumns &columns) {
           return makesNumbersOfIntegers(columns.query) ||
                  makesNumbersOfIntegers(columns.key);
         });
}

std::string sm80::findForwardObstacle(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  auto type = cast<RankedTensorType>(operands.query.getType());
  if (type.getElementTypeBitWidth() != 16)
    return "rows are neither f16 nor bf16";
  if (areMapsTooWide(plan))
    return "mapped rows may grow beyond the range of f16";
  if (plan.scoreHeads)
    return "the score is of all heads";
  if (!plan.scans.empty())
    return "the score has running sums";
  if (!plan.offsetProducts.empty() || !plan.rowTables.empty())
    return "rows are multiplied with tables";
  if (!plan.weightedRows.empty())
    return "rows of a table are added to the output";
  if (areColumnsTooWide(plan))
    return "columns that are made of positions may grow beyond the range of "
           "f16";
  int64_t columns = 0;
  for (int64_t dim : getHeadDims(operands.values))
    columns += SharedRowShape(dim).padded;
  if (countHeadElements(plan) > mostTileDims || columns > mostTileDims)
    return "a row has more than " + std::to_string(mostTileDims) + " elements";
  return "";
}

std::string sm80::findBackwardObstacle(const KernelPlan &plan) {
  if (std::string obstacle = findForwardObstacle(plan); !obstacle.empty())
    return obstacle;
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  BackwardOperands launch(plan, countHeadElements(plan),
                          getHeadDims(operands.values));
  if (plan.hasPositions && !launch.sinks.offsets.empty())
    return "trained values are over offsets of given positions";
  for (auto [reads, wantsGradient] :
       llvm::zip_equal(plan.tileReads, plan.paramWantsGradient))
    if (wantsGradient && reads != TileReads::Never)
      return "scores read trained parameters themselves";
  if (!launch.tile.exists())
    return "a block has not enough shared memory for the tables of the score";
  return "";
}

FailureOr<SmallVector<Value>> sm80::lowerForward(const Lowering &lowering) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  checkLengths(lowering);
  int64_t headDim = countHeadElements(lowering.plan);
  ForwardOperands launch(lowering.plan, headDim, getHeadDims(op.getValues()));
  if (!lowering.plan.score && launch.windows.offsets.empty() &&
      launch.windows.columns.empty())
    launch.tile.fitThreeBlocks(lowering.target.near.blockBytes);
  HoistTables tables = launchHoists(lowering, launch.tile.getTableOptions());

  LaunchOperands operands;
  launch.read(lowering, tables, operands);
  launch.results = addForwardResults(lowering, operands);
  SmallVector<Value> results = operands.writes;
  PackedHeads packed = countPackedHeads(lowering, launch.tile);
  SplitTensors splits = allocateSplits(
      lowering, {packed.blocks, launch.tile.countRows(), launch.tile.columns});
  launch.splitSoftmax = operands.write(splits.softmax);
  for (Value output : splits.outputs)
    launch.splitOutputs.push_back(operands.write(output));
  launch.splits = operands.scalar(splits.count);
  launch.packs = operands.scalar(packed.perBlock);
  launch.layout = operands.layout;

  int64_t columns = headDim;
  for (int64_t dim : getHeadDims(op.getValues()))
    columns += dim;
  createFragmentForward(lowering, "forward_fragments", launch);
  launchAttention(lowering, operands, "forward_fragments", launch.sites,
                  2 * columns);
  launchJoin(lowering, tables, splits, results, "forward_join");
  return results;
}
