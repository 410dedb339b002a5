//===- SeenOffsets.cpp - Offsets that some score has ----------------------===//

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t block = OffsetShape::block;

/// A block of offsets is seen if one of the squares of scores on its diagonals
/// may be.
Value codegen::launchSeenOffsets(const Lowering &lowering,
                                 const HoistTables &tables, StringRef suffix,
                                 Value blocks) {
  const KernelPlan &plan = lowering.plan;
  OwnerOperands owner = getOwnerOperands(plan.owner);
  LaunchOperands operands;
  SiteOperands sites;
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  sites.append(plan, tables, operands.layout, operands.reads);
  Value result =
      lowering.allocate(RankedTensorType::get({ShapedType::kDynamic},
                                              lowering.builder.getI32Type()),
                        blocks);
  unsigned target = operands.write(result);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    RowPoint point(kernel, arguments, plan, sites, pos::RowOperand::query);
    TileMask mask(kernel, arguments, point, plan, sites);
    Index queries = arguments.getSize(sites.query, 2);
    Index keys = arguments.getSize(sites.key, 2);
    auto count = [&](pos::Axis axis, unsigned dim) {
      return variesWith(plan, axis) ? arguments.getSize(sites.query, dim)
                                    : Index(1);
    };
    Index batches = count(pos::Axis::batch, 0);
    Index heads = count(pos::Axis::head, 1);
    // The block of the origin, less the rows of a tile.
    Index zero = kernel.add(kernel.ceilDiv(queries, block), 1);
    auto rowsOf = [&](pos::Side side, Index first, Index length) {
      return mask.enter(side, first,
                        kernel.min(block, kernel.sub(length, first)), block);
    };
    auto emitItem = [&](Index item) {
      Value at = arguments.getAddress(target, {item});
      kernel.store(kernel.constantI32(plan.mask ? 0 : 1), at);
      if (!plan.mask)
        return;
      auto visit = [&](Value first, Index key) {
        Value isNew =
            kernel.equal(kernel.fromI32(kernel.load(kernel.i32, at)), 0);
        Value exists =
            kernel.both(kernel.compare(arith::CmpIPredicate::sge, key, 0),
                        kernel.less(key, keys));
        kernel.when(kernel.both(isNew, exists), [&] {
          TileClass tile =
              mask.classify(rowsOf(pos::Side::query, first, queries),
                            rowsOf(pos::Side::key, key, keys));
          if (tile.possible)
            kernel.when(tile.possible,
                        [&] { kernel.store(kernel.constantI32(1), at); });
          else
            kernel.store(kernel.constantI32(1), at);
        });
      };
      kernel.loop(0, batches, 1, [&](Value batch) {
        kernel.loop(0, heads, 1, [&](Value head) {
          point.enterHead(batch, head);
          kernel.loop(0, queries, block, [&](Value first) {
            Index diagonal =
                kernel.add(first, kernel.mul(kernel.sub(item, zero), block));
            kernel.loop(0, 3, 1, [&](Value step) {
              visit(first, kernel.add(diagonal,
                                      kernel.mul(kernel.sub(step, 1), block)));
            });
          });
        });
      });
    };
    items.forEach([&](const Item &item) { emitItem(item[0]); });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}
