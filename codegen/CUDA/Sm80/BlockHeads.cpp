//===- BlockHeads.cpp - Which heads a block of a forward has --------------===//

#include "codegen/CUDA/Sm80/BlockHeads.h"
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
  Value most = sizes.min(group, sizes.constant(tile.warps));
  PackedHeads packed;
  packed.perBlock = sizes.max(sizes.mul(areFew, most), one);
  packed.blocks = sizes.mul(keyHeads, sizes.ceilDiv(group, packed.perBlock));
  return packed;
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
  return kernel.mul(keyHeads, kernel.ceilDiv(group, perBlock));
}

BlockHeads::BlockHeads(ThreadBuilder &thread, ArgumentBlock &arguments,
                       const ForwardOperands &launch, Value isPacked)
    : thread(thread), kernel(thread.kernel), isPacked(isPacked),
      group(countHeadsOfGroup(kernel, arguments, launch)),
      perBlock(asShort(kernel, arguments.getScalar(*launch.packs))),
      perGroup(asShort(kernel, kernel.ceilDiv(group, perBlock))) {}

void BlockHeads::enter(Index block) {
  keyHead = kernel.div(block, perGroup);
  first = kernel.mul(kernel.rem(block, perGroup), perBlock);
  head = getHead(thread.warp);
  isOwn = thread.less(getNumber(thread.warp), kernel.toI32(group));
}

Value BlockHeads::getNumber(Value warp) {
  return thread.add(kernel.toI32(first),
                    thread.select(isPacked, warp, thread.constant(0)));
}

Index BlockHeads::getHead(Value warp) {
  Value last = thread.add(kernel.toI32(group), -1);
  Value number = thread.min(getNumber(warp), last);
  return kernel.add(kernel.mul(keyHead, group), kernel.fromI32(number));
}
