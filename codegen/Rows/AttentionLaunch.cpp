//===- AttentionLaunch.cpp - What launches of attention share -------------===//

#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Emit/KernelNumber.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Queries and keys by which visible pairs are counted. A tile of which a part
/// is visible counts half: along an edge of the mask that is what it has.
static constexpr int64_t tileRows = 8;
static_assert(rowsPerRange % tileRows == 0);

/// Visible pairs of a query and a key of the head at which `point` stands.
static Index countVisible(KernelBuilder &kernel, ArgumentBlock &arguments,
                          TileMask &mask, const SiteOperands &sites) {
  Index queries = arguments.getSize(sites.query, 2);
  Index keys = arguments.getSize(sites.key, 2);
  Value zero = kernel.constantI64(0);
  auto sum = kernel.loop(
      0, queries, tileRows, {zero},
      [&](Value query, ValueRange ofQueries) -> KernelBuilder::Values {
        Index rows = kernel.min(tileRows, kernel.sub(queries, query));
        TileSide above = mask.enter(pos::Side::query, query, rows, tileRows);
        return kernel.loop(
            0, keys, tileRows, ofQueries,
            [&](Value key, ValueRange known) -> KernelBuilder::Values {
              Index columns = kernel.min(tileRows, kernel.sub(keys, key));
              TileSide below =
                  mask.enter(pos::Side::key, key, columns, tileRows);
              TileClass tile = mask.classify(above, below);
              Index pairs = kernel.mul(rows, columns);
              if (tile.certain)
                pairs =
                    kernel.select(tile.certain, pairs, kernel.div(pairs, 2));
              if (tile.possible)
                pairs = kernel.select(tile.possible, pairs, Index(0));
              return {kernel.value(kernel.add(known[0], pairs))};
            });
      });
  return sum.front();
}

/// FLOP of the visible pairs of all heads.
static Index countVisibleFlops(const Lowering &lowering, KernelBuilder &kernel,
                               ArgumentBlock &arguments,
                               const SiteOperands &sites, int64_t perScore) {
  const KernelPlan &plan = lowering.plan;
  RowPoint point(kernel, arguments, plan, sites, pos::RowOperand::query);
  TileMask mask(kernel, arguments, point, plan, sites);
  Index batch = arguments.getSize(sites.query, 0);
  Index heads = arguments.getSize(sites.query, 1);
  // Those that are alike are counted once.
  bool isEach = variesWith(plan, pos::Axis::batch) || plan.hasPositions;
  bool isEachHead = variesWith(plan, pos::Axis::head);
  Value zero = kernel.constantI64(0);
  auto count = [&](ValueRange at, ValueRange known) -> KernelBuilder::Values {
    point.enterHead(at[0], at[1]);
    Index visible = countVisible(kernel, arguments, mask, sites);
    return {kernel.value(kernel.add(known[0], visible))};
  };
  Index pairs = kernel.nest(
      {{0, isEach ? batch : Index(1)}, {0, isEachHead ? heads : Index(1)}},
      zero, count)[0];
  if (!isEach)
    pairs = kernel.mul(pairs, batch);
  if (!isEachHead)
    pairs = kernel.mul(pairs, heads);
  return kernel.mul(pairs, perScore);
}

ForwardResults codegen::addForwardResults(const Lowering &lowering,
                                          LaunchOperands &operands) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Value query = op.getQuery();
  // The last dimension of a row is static.
  SmallVector<Value> sizes{lowering.getDim(query, 0), lowering.getDim(query, 1),
                           lowering.getDim(query, 2), Value()};
  auto allocate = [&](Value result) {
    return operands.write(
        lowering.allocate(cast<RankedTensorType>(result.getType()), sizes));
  };
  ForwardResults results;
  for (Value output : op.getOutputs())
    results.outputs.push_back(allocate(output));
  results.lse = allocate(op.getLse());
  if (Value statistics = op.getStatistics())
    results.statistics = allocate(statistics);
  return results;
}

void codegen::launchAttention(const Lowering &lowering,
                              const LaunchOperands &operands, StringRef suffix,
                              const SiteOperands &sites, int64_t perScore,
                              std::optional<LaunchSwitch> launchSwitch) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  Value flops = arith::ConstantIndexOp::create(builder, loc, perScore);
  for (Value extent :
       {lowering.getDim(owner.query, 0), lowering.getDim(owner.query, 1),
        lowering.getDim(owner.query, 2), lowering.getDim(owner.key, 2)})
    flops = arith::MulIOp::create(builder, loc, flops, extent);
  if (launchSwitch)
    flops = arith::MulIOp::create(builder, loc, flops, launchSwitch->runs);
  if (lowering.plan.mask)
    createNumber(
        lowering, lowering.getKernelName(suffix) + "_flops", operands.layout,
        lowering.target, [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
          Index visible =
              countVisibleFlops(lowering, kernel, arguments, sites, perScore);
          return launchSwitch
                     ? kernel.mul(visible,
                                  arguments.getScalar(launchSwitch->scalar))
                     : visible;
        });
  operands.launch(lowering, suffix, flops);
}
