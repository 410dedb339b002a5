//===- Sm80Lowerings.cpp - Attention on tensor cores ----------------------===//
//
// Tables of hoisted values are those of every target. What a plan asks for that
// has no kernel here is an obstacle, not an error: kernels of warps compute it.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/BlockHeads.h"
#include "codegen/CUDA/Sm80/ColumnLoop.h"
#include "codegen/CUDA/Sm80/ForwardKernel.h"
#include "codegen/Emit/Sizes.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/JoinSplits.h"
#include "codegen/Rows/OperandRows.h"
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

std::string sm80::findForwardObstacle(const Lowering &lowering) {
  const KernelPlan &plan = lowering.plan;
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  auto type = cast<RankedTensorType>(operands.query.getType());
  if (type.getElementTypeBitWidth() != 16)
    return "rows are neither f16 nor bf16";
  if (areMapsTooWide(plan))
    return "mapped rows may grow beyond the range of f16";
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
  if (plan.scoreHeads)
    return findAllHeadsObstacle(lowering);
  ForwardOperands launch(plan, countHeadElements(plan),
                         getHeadDims(operands.values),
                         lowering.target.near.blockBytes);
  if (!launch.tile.exists())
    return "a block has not enough shared memory for a tile of rows this long";
  return "";
}

std::string sm80::findBackwardObstacle(const Lowering &lowering) {
  if (std::string obstacle = findForwardObstacle(lowering); !obstacle.empty())
    return obstacle;
  const KernelPlan &plan = lowering.plan;
  if (plan.scoreHeads)
    return findAllHeadsBackwardObstacle(lowering);
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  BackwardOperands launch(plan, countHeadElements(plan),
                          getHeadDims(operands.values),
                          lowering.target.near.blockBytes);
  for (auto [reads, wantsGradient] :
       llvm::zip_equal(plan.tileReads, plan.paramWantsGradient))
    if (wantsGradient && reads.when == TileReads::always)
      return "scores read trained parameters themselves";
  if (!launch.tile.exists())
    return "a block has not enough shared memory for the tables of the score";
  return "";
}

/// Items that fill a GPU of so many multiprocessors or a few more: as many
/// blocks as they run at a time, two of many queries.
static constexpr int64_t multiprocessors = 128,
                         enoughItems = 2 * multiprocessors;

/// The same of few queries, whose blocks fill the shared memory.
static int64_t countEnoughOfFew(const Lowering &lowering,
                                const ForwardTile &tile) {
  int64_t bytes = lowering.target.near.blockBytes;
  return multiprocessors * tile.getBlock().countBlocksOfMemory(bytes);
}

/// Whether a call may have so few queries that rows of a product are left.
static bool mayBeFew(pos::AttentionOp op) {
  int64_t queries =
      cast<RankedTensorType>(op.getQuery().getType()).getDimSize(2);
  return ShapedType::isDynamic(queries) || queries <= fragmentRows;
}

namespace {
/// The launches of a forward, one for few queries and one for others, of which
/// one has items. Which it is follows from the shape.
class ForwardLaunches {
public:
  ForwardLaunches(const Lowering &lowering, LaunchOperands &operands,
                  const ForwardOperands &many);

  Value countSplits() const;
  /// With what is common to all.
  void create(const ForwardOperands &launch, int64_t perScore);

private:
  struct Kernel {
    StringRef suffix;
    ForwardTile tile;
    PackedHeads heads;
    int64_t enoughItems;
    int64_t turns; ///< see SplitShape
    unsigned packs;
    std::optional<LaunchSwitch> launchSwitch;
  };

  const Lowering &lowering;
  LaunchOperands &operands;
  SmallVector<Kernel, 2> kernels;
};
} // namespace

ForwardLaunches::ForwardLaunches(const Lowering &lowering,
                                 LaunchOperands &operands,
                                 const ForwardOperands &many)
    : lowering(lowering), operands(operands) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Sizes sizes{lowering};
  auto add = [&](StringRef suffix, const ForwardTile &tile,
                 const PackedHeads &heads, int64_t items, Value runs) {
    // Of blocks of several parts a multiprocessor runs one or a few.
    Kernel kernel{suffix,
                  tile,
                  heads,
                  items,
                  /*turns=*/tile.parts > 1 ? 4 : 1,
                  operands.scalar(heads.perBlock),
                  {}};
    if (runs)
      kernel.launchSwitch = {runs, operands.scalar(runs)};
    kernels.push_back(kernel);
  };
  PackedHeads heads = countPackedHeads(lowering, many.tile);
  ForwardTile tile = many.makeTile(
      QueryCount::Few, countHeadElements(lowering.plan),
      getHeadDims(op.getValues()), lowering.target.near.blockBytes);
  if (!mayBeFew(op) || !tile.exists()) {
    add("forward_fragments", many.tile, heads, enoughItems, {});
    return;
  }
  RowHeads rows = countRowHeads(lowering, tile);
  Value areMany = sizes.create<arith::SubIOp>(sizes.constant(1), rows.areFew);
  add("forward_fragments", many.tile, heads, enoughItems, areMany);
  add("forward_fragments_of_few", tile, rows, countEnoughOfFew(lowering, tile),
      rows.areFew);
}

Value ForwardLaunches::countSplits() const {
  Sizes sizes{lowering};
  Value count;
  for (const Kernel &kernel : kernels) {
    Value own = codegen::countSplits(
        lowering, {kernel.heads.blocks, kernel.tile.countRows(),
                   kernel.tile.columns, kernel.enoughItems, kernel.turns});
    if (kernel.launchSwitch)
      own = sizes.mul(own, kernel.launchSwitch->runs);
    count = count ? sizes.create<arith::AddIOp>(count, own) : own;
  }
  return count;
}

void ForwardLaunches::create(const ForwardOperands &launch, int64_t perScore) {
  for (const Kernel &kernel : kernels) {
    ForwardOperands own = launch;
    own.tile = kernel.tile;
    own.packs = kernel.packs;
    if (kernel.launchSwitch)
      own.runs = kernel.launchSwitch->scalar;
    createFragmentForward(lowering, kernel.suffix, own);
    launchAttention(lowering, operands, kernel.suffix, own.sites, perScore,
                    kernel.launchSwitch);
  }
}

/// Whether the payload may do with the registers of three blocks: functions of
/// hinges, vectors over keys and scores that wait in memory never did.
static bool mayHaveFewRegisters(const ForwardOperands &launch,
                                const KernelPlan &plan) {
  pos::ScoreOp op = plan.score;
  return plan.hingeSums.empty() && launch.windows.columns.empty() &&
         !(op && standsInLoop(op.getBody().front()));
}

FailureOr<SmallVector<Value>> sm80::lowerForward(const Lowering &lowering) {
  if (lowering.plan.scoreHeads)
    return lowerAllHeadsForward(lowering);
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  checkLengths(lowering);
  int64_t headDim = countHeadElements(lowering.plan);
  ForwardOperands launch(lowering.plan, headDim, getHeadDims(op.getValues()),
                         lowering.target.near.blockBytes);
  if (mayHaveFewRegisters(launch, lowering.plan))
    launch.tile.fitThreeBlocks(lowering.target.near.blockBytes);
  HoistTables tables = launchHoists(lowering, launch.tile.getTableOptions(),
                                    /*weights=*/nullptr, /*packed=*/{},
                                    getValuesOfOperandRows(lowering));

  LaunchOperands operands;
  launch.read(lowering, tables, operands);
  launch.results = addForwardResults(lowering, operands);
  SmallVector<Value> results = operands.writes;
  ForwardLaunches launches(lowering, operands, launch);
  SplitTensors splits = allocateSplits(lowering, launches.countSplits());
  launch.splitSoftmax = operands.write(splits.softmax);
  for (Value output : splits.outputs)
    launch.splitOutputs.push_back(operands.write(output));
  launch.splits = operands.scalar(splits.count);
  launch.layout = operands.layout;

  int64_t columns = headDim;
  for (int64_t dim : getHeadDims(op.getValues()))
    columns += dim;
  launches.create(launch, 2 * columns);
  launchJoin(lowering, tables, splits, results, "forward_join");
  return results;
}
