//===- Sm80Lowerings.cpp - Attention on tensor cores ----------------------===//
//
// Tables of hoisted values are those of every target. What a plan asks for that
// has no kernel here is an obstacle, not an error: kernels of warps compute it.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/ForwardKernel.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/JoinSplits.h"
#include "codegen/Rows/OperandRows.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/RowParts.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

std::string sm80::findForwardObstacle(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  auto type = cast<RankedTensorType>(operands.query.getType());
  if (!type.getElementType().isBF16())
    return "rows are not bf16";
  if (plan.scoreHeads)
    return "the score is of all heads";
  if (!plan.scans.empty())
    return "the score has running sums";
  if (!plan.offsetProducts.empty() || !plan.rowTables.empty())
    return "rows are multiplied with tables";
  if (!plan.weightedRows.empty())
    return "rows of a table are added to the output";
  if (!plan.columns.empty())
    return "rows have columns";
  int64_t columns = 0;
  for (int64_t dim : getHeadDims(operands.values))
    columns += SharedRowShape(dim).padded;
  if (type.getDimSize(3) > mostTileDims || columns > mostTileDims)
    return "a row has more than " + std::to_string(mostTileDims) + " elements";
  return "";
}

std::string sm80::findBackwardObstacle(const KernelPlan &plan) {
  if (std::string obstacle = findForwardObstacle(plan); !obstacle.empty())
    return obstacle;
  pos::SitesOwnerInterface owner = plan.owner;
  OwnerOperands operands = getOwnerOperands(owner);
  BackwardOperands launch(
      plan, cast<RankedTensorType>(operands.query.getType()).getDimSize(3),
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
  Value query = op.getQuery();
  int64_t headDim = cast<RankedTensorType>(query.getType()).getDimSize(3);
  ForwardOperands launch(lowering.plan, headDim, getHeadDims(op.getValues()));
  HoistTableOptions options;
  options.order = OffsetOrder::Ascending;
  options.padding = std::max(launch.tile.countRows(), launch.tile.columns);
  HoistTables tables = launchHoists(lowering, options);

  LaunchOperands operands;
  launch.sites.query = operands.read(query);
  launch.sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    launch.sites.values.push_back(operands.read(value));
  auto readRows = [&](pos::RowOperand operand, Value rows, const Twine &name) {
    Value mapped = launchOperandRows(lowering, tables, operand, rows,
                                     ("rows_of_" + name).str());
    return operands.read(mapped);
  };
  launch.query = readRows(pos::RowOperand::query, query, "query");
  launch.key = readRows(pos::RowOperand::key, op.getKey(), "key");
  for (auto [number, value] : llvm::enumerate(op.getValues()))
    launch.values.push_back(
        readRows(pos::RowOperand::value, value, "value" + Twine(number)));
  launch.sites.append(lowering.plan, tables, operands.layout, operands.reads);

  launch.results = addForwardResults(lowering, operands);
  SmallVector<Value> results = operands.writes;
  SplitTensors splits =
      allocateSplits(lowering, {launch.tile.countRows(), launch.tile.columns});
  launch.splitSoftmax = operands.write(splits.softmax);
  for (Value output : splits.outputs)
    launch.splitOutputs.push_back(operands.write(output));
  launch.splits = operands.scalar(splits.count);
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
