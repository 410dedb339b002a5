//===- BlockHeads.cpp - Which heads a block of a forward has --------------===//

#include "codegen/CUDA/Sm80/BlockHeads.h"
#include "codegen/CUDA/Sm80/Teams.h"
#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

PackedHeads codegen::countPackedHeads(const Lowering &lowering,
                                      const ScoreTile &tile) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Sizes sizes{lowering};
  Value one = sizes.constant(1), none = sizes.constant(0);
  Value heads = lowering.getDim(op.getQuery(), 1);
  Value keyHeads = lowering.getDim(op.getKey(), 1);
  Value group = sizes.ceilDiv(heads, sizes.max(keyHeads, one));
  // All warps of a block go through the same tiles of keys.
  if (variesWith(lowering.plan, pos::Axis::head))
    return {one, heads};
  Value warps = sizes.ceilDiv(lowering.getDim(op.getQuery(), 2),
                              sizes.constant(tile.countWarpRows()));
  Value rest = sizes.create<arith::SubIOp>(sizes.constant(2), warps);
  Value areFew = sizes.min(sizes.max(rest, none), one);
  Value most = sizes.min(group, sizes.constant(tile.countTeams()));
  PackedHeads packed;
  packed.perBlock = sizes.max(sizes.mul(areFew, most), one);
  packed.blocks = sizes.mul(keyHeads, sizes.ceilDiv(group, packed.perBlock));
  return packed;
}

RowHeads codegen::countRowHeads(const Lowering &lowering,
                                const ScoreTile &tile) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Sizes sizes{lowering};
  Value one = sizes.constant(1), none = sizes.constant(0);
  auto sub = [&](Value a, Value b) {
    return sizes.create<arith::SubIOp>(a, b);
  };
  // 1 where a number is at most `most`, else 0.
  auto isAtMost = [&](Value number, int64_t most) {
    return sizes.min(sizes.max(sub(sizes.constant(most + 1), number), none),
                     one);
  };
  Value queries = lowering.getDim(op.getQuery(), 2);
  Value keyHeads = lowering.getDim(op.getKey(), 1);
  Value group = sizes.ceilDiv(lowering.getDim(op.getQuery(), 1),
                              sizes.max(keyHeads, one));
  RowHeads rows;
  rows.perBlock = one;
  // All lanes of a warp go through the same tiles, and look for the knots of
  // one table.
  if (!variesWith(lowering.plan, pos::Axis::head) &&
      lowering.plan.hingeSums.empty()) {
    Value most = sizes.create<arith::DivSIOp>(sizes.constant(tile.countTeams()),
                                              sizes.max(queries, one));
    rows.perBlock = sizes.max(sizes.min(group, most), one);
  }
  rows.blocks = sizes.mul(keyHeads, sizes.ceilDiv(group, rows.perBlock));
  // Heads of a group that are alone read keys once each.
  Value readsOnce =
      sizes.max(isAtMost(group, 1), sub(one, isAtMost(rows.perBlock, 1)));
  rows.areFew = sizes.mul(isAtMost(queries, fragmentRows), readsOnce);
  return rows;
}

static Index countHeadsOfGroup(KernelBuilder &kernel, ArgumentBlock &arguments,
                               const ForwardOperands &launch) {
  auto countHeads = [&](unsigned tensor) {
    return asShort(kernel, arguments.getSize(tensor, 1));
  };
  return kernel.div(countHeads(launch.sites.query),
                    countHeads(launch.sites.key));
}

Index BlockHeads::countBlocks(KernelBuilder &kernel, ArgumentBlock &arguments,
                              const ForwardOperands &launch) {
  Index perBlock = asShort(kernel, arguments.getScalar(*launch.packs));
  Index keyHeads = asShort(kernel, arguments.getSize(launch.sites.key, 1));
  Index group = countHeadsOfGroup(kernel, arguments, launch);
  if (launch.runs)
    keyHeads = kernel.mul(keyHeads, arguments.getScalar(*launch.runs));
  return kernel.mul(keyHeads, kernel.ceilDiv(group, perBlock));
}

BlockHeads::BlockHeads(ThreadBuilder &thread, ArgumentBlock &arguments,
                       const ForwardOperands &launch,
                       const FragmentPoint &point)
    : thread(thread), kernel(thread.kernel), tile(launch.tile),
      isPacked(point.isPacked),
      queries(asShort(kernel, arguments.getSize(launch.sites.query, 2))),
      group(countHeadsOfGroup(kernel, arguments, launch)),
      perBlock(asShort(kernel, arguments.getScalar(*launch.packs))),
      perGroup(asShort(kernel, kernel.ceilDiv(group, perBlock))) {}

void BlockHeads::enter(Index block) {
  keyHead = kernel.div(block, perGroup);
  first = kernel.mul(kernel.rem(block, perGroup), perBlock);
  Value team = TeamPlace::get(thread, tile).team;
  head = getHead(team);
  isOwn = kernel.both(thread.less(getPlace(team), kernel.toI32(perBlock)),
                      thread.less(getNumber(team), kernel.toI32(group)));
}

Value BlockHeads::getPlace(Value place) {
  Value own = place;
  if (tile.hasTeamsOfRows())
    own = kernel.toI32(kernel.div(kernel.fromI32(place), queries));
  return thread.select(isPacked, own, thread.constant(0));
}

Value BlockHeads::getQuery(Value row) {
  Index query = kernel.rem(kernel.fromI32(row), queries);
  return thread.select(isPacked, kernel.toI32(query), row);
}

Value BlockHeads::getNumber(Value place) {
  return thread.add(kernel.toI32(first), getPlace(place));
}

Index BlockHeads::getHead(Value place) {
  Value last = thread.add(kernel.toI32(group), -1);
  Value number = thread.min(getNumber(place), last);
  return kernel.add(kernel.mul(keyHead, group), kernel.fromI32(number));
}
