//===- SeenOffsets.cpp - Offsets that some score has ----------------------===//

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t block = OffsetShape::block;

namespace {
/// Writes the kernel: its operands, and what an item asks of the mask.
struct SeenLaunch {
  const KernelPlan &plan;
  pos::Side side;
  SiteOperands sites;
  std::optional<unsigned> endsOfRanges, ends;
  unsigned target = 0;

  void emitItem(KernelBuilder &kernel, ArgumentBlock &arguments, Index item);

private:
  void emitMasked(KernelBuilder &kernel, ArgumentBlock &arguments, Index item,
                  Value at);
  bool isOfQuery() const { return side == pos::Side::query; }
};
} // namespace

/// Whether a block is the first or the last.
static Value isAtEdge(KernelBuilder &kernel, Index item, Index blocks) {
  return kernel.either(kernel.equal(item, 0),
                       kernel.equal(item, kernel.sub(blocks, 1)));
}

/// Whether a cell that is not all at an end may reach a block.
static Value isBetween(KernelBuilder &kernel, const OffsetEnds &ends,
                       Index item) {
  Index first = kernel.mul(item, block);
  return kernel.both(kernel.less(kernel.sub(ends.low, 3 * block), first),
                     kernel.less(first, kernel.add(ends.high, 2 * block)));
}

void SeenLaunch::emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                          Index item) {
  Value at = arguments.getAddress(target, {item});
  auto store = [&](bool isSeen) {
    kernel.store(kernel.constantI32(isSeen), at);
  };
  auto emitSeen = [&] {
    store(!plan.mask);
    if (plan.mask)
      emitMasked(kernel, arguments, item, at);
  };
  if (!ends)
    return emitSeen();
  OffsetEnds bounds = OffsetEnds::find(kernel, arguments, *endsOfRanges);
  kernel.when(kernel.equal(item, 0),
              [&] { bounds.store(kernel, arguments, *ends); });
  kernel.when(
      isAtEdge(kernel, item, arguments.getSize(target, 0)),
      [&] { store(true); },
      [&] {
        store(false);
        kernel.when(isBetween(kernel, bounds, item), emitSeen);
      });
}

/// A block of offsets is seen if one of the squares of scores on its diagonals
/// may be.
void SeenLaunch::emitMasked(KernelBuilder &kernel, ArgumentBlock &arguments,
                            Index item, Value at) {
  RowPoint point(kernel, arguments, plan, sites, pos::RowOperand::query);
  TileMask mask(kernel, arguments, point, plan, sites);
  Index queries = arguments.getSize(sites.query, 2);
  Index keys = arguments.getSize(sites.key, 2);
  Index rows = isOfQuery() ? queries : keys;
  Index others = isOfQuery() ? keys : queries;
  auto count = [&](pos::Axis axis, unsigned dim) {
    return variesWith(plan, axis) ? arguments.getSize(sites.query, dim)
                                  : Index(1);
  };
  // The block of the origin, less the rows of a tile.
  Index zero = kernel.add(kernel.ceilDiv(rows, block), 1);
  auto rowsOf = [&](pos::Side of, Index first, Index length) {
    return mask.enter(of, first, kernel.min(block, kernel.sub(length, first)),
                      block);
  };
  auto visit = [&](Value row, Index other) {
    Value isNew = kernel.equal(kernel.fromI32(kernel.load(kernel.i32, at)), 0);
    Value exists =
        kernel.both(kernel.compare(arith::CmpIPredicate::sge, other, 0),
                    kernel.less(other, others));
    kernel.when(kernel.both(isNew, exists), [&] {
      TileClass tile = mask.classify(
          rowsOf(pos::Side::query, isOfQuery() ? Index(row) : other, queries),
          rowsOf(pos::Side::key, isOfQuery() ? other : Index(row), keys));
      if (tile.possible)
        kernel.when(tile.possible,
                    [&] { kernel.store(kernel.constantI32(1), at); });
      else
        kernel.store(kernel.constantI32(1), at);
    });
  };
  kernel.loop(0, count(pos::Axis::batch, 0), 1, [&](Value batch) {
    kernel.loop(0, count(pos::Axis::head, 1), 1, [&](Value head) {
      point.enterHead(batch, head);
      kernel.loop(0, rows, block, [&](Value first) {
        Index diagonal =
            kernel.add(first, kernel.mul(kernel.sub(item, zero), block));
        kernel.loop(0, 3, 1, [&](Value step) {
          visit(first,
                kernel.add(diagonal, kernel.mul(kernel.sub(step, 1), block)));
        });
      });
    });
  });
}

Value codegen::launchSeenOffsets(const Lowering &lowering,
                                 const HoistTables &tables, StringRef suffix,
                                 Value blocks, pos::Side side,
                                 Value endsOfRanges, Value ends) {
  const KernelPlan &plan = lowering.plan;
  OwnerOperands owner = getOwnerOperands(plan.owner);
  LaunchOperands operands;
  SeenLaunch launch{plan, side, {}, std::nullopt, std::nullopt};
  SiteOperands &sites = launch.sites;
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  sites.append(plan, tables, operands.layout, operands.reads);
  if (ends)
    launch.endsOfRanges = operands.read(endsOfRanges);
  Value result =
      lowering.allocate(RankedTensorType::get({ShapedType::kDynamic},
                                              lowering.builder.getI32Type()),
                        blocks);
  launch.target = operands.write(result);
  if (ends)
    launch.ends = operands.write(ends);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(launch.target, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach(
        [&](const Item &item) { launch.emitItem(kernel, arguments, item[0]); });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}
