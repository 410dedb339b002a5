//===- AllHeadsLowering.cpp - Scores of all heads on tensor cores ---------===//
//
// Of a backward, chunks of keys have sums of dQ of their own, and parts of the
// queries sums of dK and dV, as have the heads of queries that share keys: the
// launches behind the main one add them up in order.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/AllHeadsBackwardKernel.h"
#include "codegen/CUDA/Sm80/AllHeadsForwardKernel.h"
#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/Delta.h"
#include "codegen/Rows/Finish.h"
#include "codegen/Rows/JoinSplits.h"
#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Tiles/RowParts.h"
#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Registers of a thread that may stay with it while tiles pass, of 255:
/// payloads of 16 heads take some 70, rows and addresses 50. Of a backward some
/// are spilled beside the payload, which takes longer than that.
static constexpr int64_t mostSums = 128;
/// Items that fill a GPU of 128 multiprocessors, of which some run two at a
/// time.
static constexpr int64_t enoughItems = 256;
/// Items of a backward: of an H100 and an H200 each multiprocessor runs one,
/// and all have the same work. Sums of dQ, at most.
static constexpr int64_t wantedItems = 132, mostChunks = 16;
/// Tiles of queries of a part, at least, and queries whose statistics one item
/// of the launch before computes.
static constexpr int64_t tilesOfPart = 8, statisticsBlock = 64;

static SmallVector<int64_t> getValueDims(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  return getHeadDims(getOwnerOperands(owner).values);
}

static AllHeadsForwardTile getForwardTile(const KernelPlan &plan) {
  return {plan.scoreHeads, countHeadElements(plan), getValueDims(plan)};
}

static AllHeadsBackwardTile getBackwardTile(const Lowering &lowering) {
  return {lowering.plan, countHeadElements(lowering.plan),
          getValueDims(lowering.plan), lowering.target.near.blockBytes};
}

static int64_t countProductLanes(const KernelPlan &plan, int64_t ofHead,
                                 int64_t ofValue) {
  int64_t lanes = ofHead * countHeadElements(plan);
  for (int64_t dim : getValueDims(plan))
    lanes += ofValue * dim;
  return lanes;
}

//===----------------------------------------------------------------------===//
// What stays with warps
//===----------------------------------------------------------------------===//

std::string sm80::findAllHeadsObstacle(const Lowering &lowering) {
  const KernelPlan &plan = lowering.plan;
  if (!plan.hingeSums.empty())
    return "the score is of all heads and has functions of hinges";
  if (variesWith(plan, pos::Axis::head))
    return "the score is of all heads, between which masks differ";
  AllHeadsForwardTile tile = getForwardTile(plan);
  if (tile.countSums() > mostSums ||
      tile.getBlock().sharedBytes > lowering.target.near.blockBytes)
    return "the score is of all heads, for whose rows a block has no room";
  return "";
}

/// Whether tiles read trained parameters themselves, other than the matrices
/// and vectors of a payload.
static bool readsTrained(const KernelPlan &plan) {
  pos::ScoreOp score = plan.score;
  return score
      ->walk([&](pos::ReadOp read) {
        auto param = cast<BlockArgument>(read.getTensor());
        return plan.paramWantsGradient[param.getArgNumber()]
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

std::string sm80::findAllHeadsBackwardObstacle(const Lowering &lowering) {
  const KernelPlan &plan = lowering.plan;
  for (const Hoisted &hoisted : plan.hoisted) {
    if (!hoisted.wantsGradient || !isUsedByScores(plan, hoisted))
      continue;
    if (hoisted.form == HoistForm::QueryVector ||
        hoisted.form == HoistForm::KeyVector)
      return "the score is of all heads and has trained values over rows";
    if (hoisted.form == HoistForm::OffsetTable && plan.hasPositions)
      return "the score is of all heads and has trained values over offsets of "
             "given positions";
  }
  if (readsTrained(plan))
    return "scores read trained parameters themselves";
  AllHeadsBackwardTile tile = getBackwardTile(lowering);
  if (tile.countSums() > mostSums || tile.stages == 0)
    return "the score is of all heads, for whose gradients a block has no room";
  return "";
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
sm80::lowerAllHeadsForward(const Lowering &lowering) {
  checkLengths(lowering);
  const KernelPlan &plan = lowering.plan;
  AllHeadsWeights weights(plan, plan.scoreHeads);
  AllHeadsForwardOperands launch(plan, weights, getForwardTile(plan));
  Value packed = weights.launch(lowering);
  HoistTables tables =
      launchHoists(lowering, launch.tile.getTableOptions(), &weights, packed,
                   getValuesOfOperandRows(lowering));

  LaunchOperands operands;
  launch.read(lowering, tables, operands);
  launch.packed = operands.read(packed);
  launch.results = addForwardResults(lowering, operands);
  SmallVector<Value> results = operands.writes;
  // All heads are one block.
  Value splitCount =
      countSplits(lowering, {Sizes{lowering}.constant(1), fragmentRows,
                             launch.tile.columns, enoughItems});
  SplitTensors splits = allocateSplits(lowering, splitCount);
  launch.splitSoftmax = operands.write(splits.softmax);
  for (Value output : splits.outputs)
    launch.splitOutputs.push_back(operands.write(output));
  launch.splits = operands.scalar(splits.count);
  launch.layout = operands.layout;
  constexpr StringRef suffix = "forward_fragments";
  createAllHeadsFragmentForward(lowering, suffix, launch);
  launchAttention(lowering, operands, suffix, launch.sites,
                  2 * countProductLanes(plan, 1, 1));
  launchJoin(lowering, tables, splits, results, "forward_join");
  return results;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

namespace {
/// The launches of one backward, in the order in which they run.
class AllHeadsBackwardLowering {
public:
  explicit AllHeadsBackwardLowering(const Lowering &lowering)
      : lowering(lowering), sizes{lowering},
        op(cast<pos::AttentionBackwardOp>(lowering.plan.owner)),
        weights(plan, plan.scoreHeads),
        launch(plan, weights, getBackwardTile(lowering)),
        gradients(lowering, launch) {}

  SmallVector<Value> run();

private:
  void cut();
  void addReads();
  Value makePart(Value rows, const SharedRowShape &shape);
  void addWrites();
  void launchMain();
  Value finish(pos::RowOperand operand, Value rows, Type type, Value partials,
               const Twine &name);

  const Lowering &lowering;
  const KernelPlan &plan = lowering.plan;
  Type f32 = lowering.builder.getF32Type();
  Sizes sizes;
  pos::AttentionBackwardOp op;
  AllHeadsWeights weights;
  AllHeadsBackwardOperands launch;
  PayloadGradients gradients;
  LaunchOperands operands;
  HoistTables tables;
  Value chunks, parts; ///< of tiles of keys, and of queries
  Value paddedQueries;
  Value queryPartials, keyPartials;
  SmallVector<Value> valuePartials;
};
} // namespace

/// As many parts as leave few chunks, each of which has a sum of dQ, and as
/// many of those as there are items for.
void AllHeadsBackwardLowering::cut() {
  auto countTiles = [&](Value rows) {
    return sizes.ceilDiv(lowering.getDim(rows, 2),
                         sizes.constant(launch.tile.ofHead.columns));
  };
  auto divide = [&](Value a, Value b) {
    return sizes.create<arith::DivSIOp>(a, b);
  };
  Value one = sizes.constant(1);
  Value batch = sizes.max(lowering.getDim(op.getQuery(), 0), one);
  Value wanted = sizes.max(divide(sizes.constant(wantedItems), batch), one);
  Value mostParts =
      sizes.ceilDiv(countTiles(op.getQuery()), sizes.constant(tilesOfPart));
  parts =
      sizes.min(sizes.ceilDiv(wanted, sizes.constant(mostChunks)), mostParts);
  parts = sizes.max(parts, one);
  Value most = sizes.min(countTiles(op.getKey()), sizes.constant(mostChunks));
  chunks = sizes.max(sizes.min(divide(wanted, parts), most), one);
}

void AllHeadsBackwardLowering::addReads() {
  RowStatistics statistics = launchDelta(
      lowering, statisticsBlock, paddedQueries, gradients.getTermPartials());
  launch.read(lowering, tables, operands);
  launch.packed = operands.read(tables.packed);
  for (Value gradient : op.getOutputGradients())
    launch.outputGradients.push_back(operands.read(gradient));
  launch.statistics = readStatistics(operands, statistics);
}

/// Of the gradients of rows of keys or values.
Value AllHeadsBackwardLowering::makePart(Value rows,
                                         const SharedRowShape &shape) {
  Value heads = lowering.getDim(op.getKey(), 1);
  Value group = sizes.create<arith::DivSIOp>(
      lowering.getDim(op.getQuery(), 1), sizes.max(heads, sizes.constant(1)));
  int64_t row = llvm::alignTo(shape.dim, lowering.target.width);
  Value length =
      sizes.roundUp(lowering.getDim(rows, 2), launch.tile.ofHead.columns);
  return makePartialSum(lowering, sizes.mul(parts, group), heads,
                        {length, Value()}, f32, /*zero=*/row != shape.dim, row)
      .tensor;
}

void AllHeadsBackwardLowering::addWrites() {
  launch.chunks = operands.scalar(chunks);
  launch.parts = operands.scalar(parts);
  const ForwardTile &ofHead = launch.tile.ofHead;
  queryPartials =
      makePartialSum(lowering, chunks, lowering.getDim(op.getQuery(), 1),
                     {paddedQueries, Value()}, f32, /*zero=*/true,
                     llvm::alignTo(ofHead.query.dim, lowering.target.width))
          .tensor;
  launch.queryGradient = operands.write(queryPartials);
  keyPartials = makePart(op.getKey(), ofHead.query);
  launch.keyGradient = operands.write(keyPartials);
  for (auto [value, shape] : llvm::zip_equal(op.getValues(), ofHead.values)) {
    valuePartials.push_back(makePart(value, shape));
    launch.valueGradients.push_back(operands.write(valuePartials.back()));
  }
  gradients.makeSums();
  gradients.addTo(operands);
}

void AllHeadsBackwardLowering::launchMain() {
  launch.layout = operands.layout;
  constexpr StringRef suffix = "backward_fragments";
  createAllHeadsFragmentBackward(lowering, suffix, launch);
  launchAttention(lowering, operands, suffix, launch.sites,
                  2 * countProductLanes(plan, 3, 2));
}

Value AllHeadsBackwardLowering::finish(pos::RowOperand operand, Value rows,
                                       Type type, Value partials,
                                       const Twine &name) {
  return launchFinish(lowering, name.str(), tables,
                      {operand, rows, cast<RankedTensorType>(type), partials},
                      launch.tableGradients);
}

SmallVector<Value> AllHeadsBackwardLowering::run() {
  tables = launchHoists(lowering, launch.tile.ofHead.getTableOptions(),
                        &weights, weights.launch(lowering));
  paddedQueries =
      sizes.roundUp(lowering.getDim(op.getQuery(), 2), statisticsBlock);
  cut();
  gradients.makeHoistSums(tables,
                          {sizes.mul(chunks, parts), statisticsBlock,
                           launch.tile.ofHead.columns, lowering.target.width,
                           /*ofAllHeads=*/true, /*warps=*/1,
                           /*keysHaveColumns=*/true, parts});
  addReads();
  addWrites();
  launchMain();
  gradients.addReadSums();
  SmallVector<Value> results{
      finish(pos::RowOperand::query, op.getQuery(),
             op.getQueryGradient().getType(), queryPartials, "finish"),
      finish(pos::RowOperand::key, op.getKey(), op.getKeyGradient().getType(),
             keyPartials, "finish_key")};
  for (auto [number, partials] : llvm::enumerate(valuePartials))
    results.push_back(finish(pos::RowOperand::value, op.getValues()[number],
                             op.getValueGradients()[number].getType(), partials,
                             "finish_value" + Twine(number)));
  gradients.launchPullbacks(queryPartials,
                            getOperandParts(plan, pos::RowOperand::query,
                                            op.getQuery(),
                                            lowering.target.width),
                            keyPartials);
  for (int32_t number : op.getParamGradients())
    results.push_back(gradients.params.finish(number, f32));
  return results;
}

FailureOr<SmallVector<Value>>
sm80::lowerAllHeadsBackward(const Lowering &lowering) {
  if (failed(verifyRowGradients(lowering.plan)))
    return failure();
  checkLengths(lowering);
  return AllHeadsBackwardLowering(lowering).run();
}
