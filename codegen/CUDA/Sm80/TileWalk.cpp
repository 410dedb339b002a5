//===- TileWalk.cpp - Which tiles a block goes through --------------------===//

#include "codegen/CUDA/Sm80/TileWalk.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

// The state under a mask: the tile, the first of the 32 tiles that are known,
// bits of those that are still to come and of those that are visible, and
// whether the tile is. Without a mask: the tile.

Values TileWalk::begin(const TileSide &ofBlock, Value first, Value behind) {
  rows = ofBlock;
  end = behind;
  Value before = thread.add(first, -1);
  if (!plan.mask)
    return {before};
  Value none = thread.constant(0);
  return {before, thread.add(first, -int64_t(warpLanes)), none, none,
          kernel.constantI1(false)};
}

Value TileWalk::isThere(ValueRange state) {
  return thread.less(getTile(state), end);
}

Value TileWalk::isVisible(ValueRange state) {
  return plan.mask ? state[4] : kernel.constantI1(true);
}

/// Bits of tiles from `base` on: which the mask
/// shows a part, and of which all.
Values TileWalk::classify(Value base) {
  Value tile = thread.add(base, thread.lane);
  Value isTile = thread.less(tile, end);
  Value last = thread.add(end, -1);
  Index first = kernel.fromI32(
      thread.mul(thread.select(isTile, tile, last), shape.columns));
  Index count =
      kernel.min(shape.columns, kernel.sub(kernel.fromI32(length), first));
  pos::Side side = shape.getColumnSide();
  TileSide columns = mask.enter(side, first, count, shape.columns);
  bool areKeys = side == pos::Side::key;
  TileClass found =
      mask.classify(areKeys ? rows : columns, areKeys ? columns : rows);
  Value certain = found.certain ? kernel.both(isTile, found.certain)
                                : kernel.constantI1(false);
  return {thread.ballot(kernel.both(isTile, found.possible)),
          thread.ballot(certain)};
}

Values TileWalk::advance(ValueRange state) {
  if (!plan.mask)
    return {thread.add(getTile(state), 1)};
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Value zero = thread.constant(0);
  auto isZero = [&](Value bits) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, bits,
                                 zero);
  };
  Values known = thread.loopWhile(
      state.slice(1, 3),
      [&](ValueRange carried) {
        Value next = thread.add(carried[0], warpLanes);
        return kernel.both(isZero(carried[1]), thread.less(next, end));
      },
      [&](ValueRange carried) {
        Value base = thread.add(carried[0], warpLanes);
        Values bits = classify(base);
        return Values{base, bits[0], bits[1]};
      });
  Value base = known[0], possible = known[1], certain = known[2];
  Value place = LLVM::CountTrailingZerosOp::create(builder, loc, possible,
                                                   /*is_zero_poison=*/false);
  Value tile = thread.select(isZero(possible), end, thread.add(base, place));
  Value rest =
      arith::AndIOp::create(builder, loc, possible, thread.add(possible, -1));
  Value inRange = thread.rem(place, warpLanes);
  Value own = arith::ShRUIOp::create(builder, loc, certain, inRange);
  Value isVisible = arith::TruncIOp::create(builder, loc, kernel.i1, own);
  return {tile, base, rest, certain, isVisible};
}
