//===- BackwardLowering.cpp - The launches of a backward ------------------===//
//
// Those before and behind the main one are those of every target. A chunk of
// tiles of keys has a sum of dQ of its own: there are as many chunks as fill a
// GPU, from the shape only, and at most `mostChunks`, since each takes as many
// bytes as dQ in f32, which are written and read again for each tile of keys of
// the chunk, and once more to add the chunks up. Where gradients may be summed
// up in any order, all chunks add to one sum; tables and vectors keep sums of
// their own, which are small.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/BackwardKernel.h"
#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/Delta.h"
#include "codegen/Rows/Finish.h"
#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/RowGradients.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Of an H100 and of an H200; a GPU that has others runs what is left over in a
/// round of its own.
static constexpr int64_t multiprocessors = 132;
static constexpr int64_t mostChunks = 16;
/// Queries whose statistics one item of the launch before computes: a multiple
/// of those of a tile.
static constexpr int64_t statisticsBlock = 64;

namespace {
/// The launches of one backward, in the order in which they run.
class FragmentBackwardLowering {
public:
  explicit FragmentBackwardLowering(const Lowering &lowering)
      : lowering(lowering), sizes{lowering},
        op(cast<pos::AttentionBackwardOp>(lowering.plan.owner)),
        launch(lowering.plan, countHeadElements(lowering.plan),
               getHeadDims(op.getValues()), lowering.target.near.blockBytes),
        gradients(lowering, launch) {}

  SmallVector<Value> run();

private:
  Value getChunks();
  void addReads();
  Value addGradientRows(pos::RowOperand operand, Value rows, Type type,
                        GradientRows &gradient);
  bool isPartial(pos::RowOperand operand) const;
  void addWrites();
  void launchMain();
  Value finish(pos::RowOperand operand, Value rows, Type type, Value partials,
               const Twine &name);

  const Lowering &lowering;
  const KernelPlan &plan = lowering.plan;
  Type f32 = lowering.builder.getF32Type();
  Sizes sizes;
  pos::AttentionBackwardOp op;
  BackwardOperands launch;
  PayloadGradients gradients;
  LaunchOperands operands;
  HoistTables tables;
  Value chunks, paddedQueries;
  Value queryPartials, keyRows;
  SmallVector<Value> valueRows;
};
} // namespace

Value FragmentBackwardLowering::getChunks() {
  Value one = sizes.constant(1);
  Value heads = sizes.mul(lowering.getDim(op.getKey(), 0),
                          lowering.getDim(op.getKey(), 1));
  Value tiles = sizes.ceilDiv(lowering.getDim(op.getKey(), 2),
                              sizes.constant(launch.tile.countRows()));
  // As many as the multiprocessors run at a time, or in two rounds if else an
  // eighth of them had nothing to do.
  int64_t atATime =
      multiprocessors * launch.tile.getBlock().countResidentBlocks();
  auto inRounds = [&](int64_t rounds) {
    return sizes.create<arith::DivSIOp>(sizes.constant(rounds * atATime),
                                        sizes.max(heads, one));
  };
  Value few = inRounds(1), many = inRounds(2);
  Value areEnough = sizes.min(
      one, sizes.create<arith::DivSIOp>(sizes.mul(few, heads),
                                        sizes.constant(atATime * 7 / 8)));
  Value wanted = sizes.create<arith::SubIOp>(
      many, sizes.mul(areEnough, sizes.create<arith::SubIOp>(many, few)));
  Value most = sizes.min(tiles, sizes.constant(mostChunks));
  return sizes.max(one, sizes.min(wanted, most));
}

void FragmentBackwardLowering::addReads() {
  RowStatistics statistics = launchDelta(
      lowering, statisticsBlock, paddedQueries, gradients.getTermPartials());
  launch.read(lowering, tables, operands);
  for (Value gradient : op.getOutputGradients())
    launch.outputGradients.push_back(operands.read(gradient));
  launch.statistics = readStatistics(operands, statistics);
}

/// Whether the gradients of rows that the kernel has are not yet those of the
/// operand: row maps are still to be pulled back, or columns follow.
bool FragmentBackwardLowering::isPartial(pos::RowOperand operand) const {
  return !getRowMaps(plan, operand).empty() ||
         (operand == pos::RowOperand::key && !plan.columns.empty());
}

/// What the kernel stores the gradient of rows as: f32 where something is still
/// to be made of them.
Value FragmentBackwardLowering::addGradientRows(pos::RowOperand operand,
                                                Value rows, Type type,
                                                GradientRows &gradient) {
  gradient.isPartial = isPartial(operand);
  Value result;
  if (gradient.isPartial) {
    int64_t dim =
        countOperandElements(plan, operand, rows, lowering.target.width);
    result =
        makePartialSum(lowering, sizes.constant(1), lowering.getDim(rows, 1),
                       {lowering.getDim(rows, 2), Value()}, f32,
                       /*zero=*/true, llvm::alignTo(dim, lowering.target.width))
            .tensor;
  } else {
    result = lowering.allocateLike(rows, type);
  }
  gradient.tensor = operands.write(result);
  return result;
}

void FragmentBackwardLowering::addWrites() {
  launch.chunks = operands.scalar(chunks);
  Value parts = op.getUnordered() ? sizes.constant(1) : chunks;
  PartialSum query = makePartialSum(
      lowering, parts, lowering.getDim(op.getQuery(), 1),
      {paddedQueries, Value()}, f32, /*zero=*/true,
      llvm::alignTo(launch.tile.head.dim, lowering.target.width));
  queryPartials = query.tensor;
  launch.queryGradient = operands.write(queryPartials);
  keyRows = addGradientRows(pos::RowOperand::key, op.getKey(),
                            op.getKeyGradient().getType(), launch.keyGradient);
  for (auto [value, gradient] :
       llvm::zip_equal(op.getValues(), op.getValueGradients())) {
    GradientRows rows;
    valueRows.push_back(addGradientRows(pos::RowOperand::value, value,
                                        gradient.getType(), rows));
    launch.valueGradients.push_back(rows);
  }
  gradients.makeSums();
  gradients.addTo(operands);
}

void FragmentBackwardLowering::launchMain() {
  launch.layout = operands.layout;
  int64_t valueDims = 0;
  for (int64_t dim : getHeadDims(op.getValues()))
    valueDims += dim;
  createFragmentBackward(lowering, "backward_fragments", launch);
  // Five products of 2 * d FLOP per score.
  launchAttention(lowering, operands, "backward_fragments", launch.sites,
                  2 * (3 * launch.tile.head.dim + 2 * valueDims));
}

/// Rows of the operand's gradient in their type, from f32 of mapped rows.
Value FragmentBackwardLowering::finish(pos::RowOperand operand, Value rows,
                                       Type type, Value partials,
                                       const Twine &name) {
  return launchFinish(lowering, name.str(), tables,
                      {operand, rows, cast<RankedTensorType>(type), partials},
                      launch.tableGradients);
}

SmallVector<Value> FragmentBackwardLowering::run() {
  tables = launchHoists(lowering, launch.tile.getTableOptions());
  paddedQueries =
      sizes.roundUp(lowering.getDim(op.getQuery(), 2), statisticsBlock);
  chunks = getChunks();
  gradients.makeHoistSums(tables,
                          {chunks, statisticsBlock, launch.tile.countRows(),
                           lowering.target.width, /*ofAllHeads=*/false,
                           /*warps=*/launch.tile.warps,
                           /*keysHaveColumns=*/true});
  addReads();
  addWrites();
  launchMain();
  gradients.addReadSums();
  SmallVector<Value> results{finish(pos::RowOperand::query, op.getQuery(),
                                    op.getQueryGradient().getType(),
                                    queryPartials, "finish")};
  auto finishMapped = [&](pos::RowOperand operand, Value rows, Type type,
                          Value stored, const Twine &name) {
    return isPartial(operand) ? finish(operand, rows, type, stored, name)
                              : stored;
  };
  results.push_back(finishMapped(pos::RowOperand::key, op.getKey(),
                                 op.getKeyGradient().getType(), keyRows,
                                 "pull_key"));
  for (auto [number, stored] : llvm::enumerate(valueRows))
    results.push_back(finishMapped(pos::RowOperand::value,
                                   op.getValues()[number],
                                   op.getValueGradients()[number].getType(),
                                   stored, "pull_value" + Twine(number)));
  gradients.launchPullbacks(queryPartials,
                            getOperandParts(plan, pos::RowOperand::query,
                                            op.getQuery(),
                                            lowering.target.width),
                            keyRows);
  for (int32_t number : op.getParamGradients())
    results.push_back(gradients.params.finish(number, f32));
  return results;
}

FailureOr<SmallVector<Value>> sm80::lowerBackward(const Lowering &lowering) {
  if (lowering.plan.scoreHeads)
    return lowerAllHeadsBackward(lowering);
  if (failed(verifyRowGradients(lowering.plan)))
    return failure();
  checkLengths(lowering);
  return FragmentBackwardLowering(lowering).run();
}
