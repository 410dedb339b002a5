//===- TileWalk.cpp - Which tiles a block goes through --------------------===//

#include "codegen/CUDA/Sm80/TileWalk.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

// The state under a mask: the tile, and of the 32 tiles that are known with it
// bits of those that are still to come and of those that are visible, which are
// whole. Without a mask: the tile. It lasts while a tile is computed, when
// registers are few: the number of the tile among the 32 follows from that of
// the first one of all.

Values TileWalk::begin(const TileSide &ofBlock, Value start, Value behind) {
  rows = ofBlock;
  first = start;
  end = behind;
  Value before = thread.add(first, -1);
  if (!plan.mask)
    return {before};
  Value none = thread.constant(0);
  return {before, none, none};
}

/// Also of -1, before the first tile: the last of the 32 before.
Value TileWalk::getPlace(Value tile) {
  return thread.rem(thread.sub(tile, first), warpLanes);
}

Value TileWalk::isThere(ValueRange state) {
  return thread.less(getTile(state), end);
}

Value TileWalk::getFirstOf(Value tile) {
  if (turns)
    tile = arith::AddIOp::create(
        kernel.builder, kernel.loc, turn,
        arith::MulIOp::create(kernel.builder, kernel.loc, tile, turns));
  return thread.mul(tile, shape.columns);
}

Value TileWalk::isWhole(ValueRange state) {
  Value first = getFirstColumn(state);
  return thread.less(thread.add(first, shape.columns - 1), length);
}

/// Whether a condition holds, and all rows exist.
Value TileWalk::withRows(Value condition) {
  return areRowsWhole ? kernel.both(condition, areRowsWhole) : condition;
}

Value TileWalk::isVisible(ValueRange state) {
  if (!plan.mask)
    return withRows(isWhole(state));
  Value own = arith::ShRUIOp::create(kernel.builder, kernel.loc, state[2],
                                     getPlace(getTile(state)));
  return arith::TruncIOp::create(kernel.builder, kernel.loc, kernel.i1, own);
}

/// Bits of tiles from `base` on: of which the mask shows a part, and of which
/// all.
Values TileWalk::classify(Value base) {
  Value tile = thread.add(base, thread.lane);
  Value isTile = thread.less(tile, end);
  Value last = thread.add(end, -1);
  Index first = kernel.fromI32(getFirstOf(thread.select(isTile, tile, last)));
  Index count =
      kernel.min(shape.columns, kernel.sub(kernel.fromI32(length), first));
  pos::Side side = shape.getColumnSide();
  TileSide columns = mask.enter(side, first, count, shape.columns);
  bool areKeys = side == pos::Side::key;
  TileClass found =
      mask.classify(areKeys ? rows : columns, areKeys ? columns : rows);
  Value certain = kernel.constantI1(false);
  if (found.certain)
    certain = withRows(
        kernel.both(kernel.both(isTile, isWhole(tile)), found.certain));
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
  Value start = thread.sub(getTile(state), getPlace(getTile(state)));
  Values known = thread.loopWhile(
      Values{start, state[1], state[2]},
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
  return {tile, rest, certain};
}
