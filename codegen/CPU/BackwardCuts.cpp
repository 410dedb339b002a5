//===- BackwardCuts.cpp - How a backward is cut into work items -----------===//

#include "codegen/CPU/BackwardCuts.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Where queries are cut: all copies together take at most what one f32 tensor
/// of the scores of all heads takes, of which attention that is written in
/// tensors keeps several, and not more than this; but small ones need not be
/// saved.
static constexpr int64_t mostBytes = int64_t(4) << 30;
static constexpr int64_t leastBytes = int64_t(64) << 20;
/// Blocks of a part, so that a tile of keys is loaded for some products.
static constexpr int64_t blocksPerPart = 4;
/// Parts are a power of two, up to this one's.
static constexpr int64_t mostDoublings = 5;
/// Items that take turns, at least, where what passes stays in a second cache:
/// under a mask they have different work.
static constexpr int64_t leastNearItems = 8;

namespace {
/// Computes the cuts of one op.
class Cutter {
public:
  Cutter(const Lowering &lowering, const BackwardShape &shape, bool ofAllHeads)
      : lowering(lowering), shape(shape), ofAllHeads(ofAllHeads) {}

  Value countChunks() const;
  BackwardCuts cutInOrder() const;
  BackwardCuts cutBothSides() const;

private:
  Value floorDiv(Value a, Value b) const {
    return sizes.create<arith::DivSIOp>(a, sizes.max(b, one));
  }
  Value wantItems(Value items) const {
    Value by = ofAllHeads ? batch : sizes.mul(batch, keyHeads);
    return sizes.ceilDiv(items, sizes.max(by, one));
  }
  Value wantItems(int64_t items) const {
    return wantItems(sizes.constant(items));
  }
  Value countBytes(ArrayRef<Value> extents, int64_t words) const;
  Value countSumBytes() const;

  const Lowering &lowering;
  const BackwardShape &shape;
  bool ofAllHeads;
  Sizes sizes{lowering};
  pos::AttentionBackwardOp op =
      cast<pos::AttentionBackwardOp>(lowering.plan.owner);
  Value one = sizes.constant(1);
  Value batch = lowering.getDim(op.getQuery(), 0);
  Value heads = lowering.getDim(op.getQuery(), 1);
  Value keyHeads = lowering.getDim(op.getKey(), 1);
  Value queries = lowering.getDim(op.getQuery(), 2);
  Value keys = lowering.getDim(op.getKey(), 2);
  Value tiles = sizes.ceilDiv(keys, sizes.constant(shape.keys));
};
} // namespace

/// As many as items are wanted, each with a copy of dQ.
Value Cutter::countChunks() const {
  const Granularity &granularity = lowering.target.granularity;
  // A copy of dQ is as wide as rows with their columns are: fewer of them.
  int64_t items = granularity.items * shape.headParts.get().front().dim /
                  std::max<int64_t>(shape.headDim, 1);
  Value wanted = wantItems(std::max<int64_t>(items, 1));
  Value most = sizes.ceilDiv(sizes.constant(granularity.copies),
                             sizes.max(sizes.mul(batch, heads), one));
  Value chunks = sizes.min(tiles, sizes.min(wanted, most));
  return sizes.max(one, chunks);
}

/// Each item has as many tiles as it can keep, or fewer where there would be
/// few items.
BackwardCuts Cutter::cutInOrder() const {
  Value passing = countBytes({heads, queries},
                             shape.headDim + shape.valueDim + shape.headRow);
  Value areFar = sizes.min(floorDiv(passing, sizes.constant(secondCache)), one);
  Value fewer =
      sizes.mul(areFar, sizes.constant(leastNearItems - leastItemsOfAllHeads));
  Value least = wantItems(
      sizes.create<arith::SubIOp>(sizes.constant(leastNearItems), fewer));
  Value tilesOfItem =
      sizes.min(sizes.constant(shape.tiles), floorDiv(tiles, least));
  Value items = sizes.ceilDiv(tiles, sizes.max(tilesOfItem, one));
  items = sizes.max(items, one);
  auto atMost = [&](int64_t number) {
    return sizes.min(items, sizes.constant(number));
  };
  using Order = BackwardLaunch::Order;
  return {atMost(Order::copies), one, atMost(Order::mostSums), items};
}

Value Cutter::countBytes(ArrayRef<Value> extents, int64_t words) const {
  Value bytes = sizes.constant(4 * words);
  for (Value extent : extents)
    bytes = sizes.mul(bytes, extent);
  return bytes;
}

/// What items keep of their own, whatever part of the queries they have:
/// gradients of what is read by offset.
Value Cutter::countSumBytes() const {
  int64_t ofHead = 0, ofAll = 0; // words of an offset
  for (const Hoisted &hoisted : lowering.plan.hoisted)
    if (hoisted.form == HoistForm::OffsetTable && hoisted.wantsGradient)
      (hoisted.extent ? ofAll : ofHead) += std::max<int64_t>(hoisted.extent, 1);
  for (const OffsetProduct &product : lowering.plan.offsetProducts)
    if (lowering.plan.paramWantsGradient[product.table.param])
      ofHead += shape.headRow;
  Value words = sizes.create<arith::AddIOp>(
      sizes.mul(heads, sizes.constant(ofHead)), sizes.constant(ofAll));
  Value offsets = sizes.create<arith::AddIOp>(queries, keys);
  return countBytes({batch, words, offsets}, 1);
}

BackwardCuts Cutter::cutBothSides() const {
  Value wanted = wantItems(lowering.target.granularity.items);
  // Products with rows of offsets have a gradient of their own of the rows that
  // they multiply.
  int64_t queryRow = shape.headRow, keyRow = shape.headRow + shape.valueRow;
  for (const OffsetProduct &product : lowering.plan.offsetProducts)
    (product.table.side == pos::Side::query ? queryRow : keyRow) +=
        shape.headRow;
  Value ofChunk = countBytes({batch, heads, queries}, queryRow);
  Value ofPart = countBytes({batch, keyHeads, keys}, keyRow);
  Value most = countBytes({batch, heads, queries, keys}, 1);
  most = sizes.max(sizes.min(most, sizes.constant(mostBytes)),
                   sizes.constant(leastBytes));

  // Copies of both kinds take least where those of one take as much as those of
  // the other: p^2 parts for `wanted` * ofChunk / ofPart.
  Value ratio = floorDiv(sizes.mul(wanted, ofChunk), ofPart);
  // Scans go from tile to tile, so one item has all keys. Else most of the
  // memory is for chunks, with what items keep of their own.
  bool isWhole = !lowering.plan.scans.empty();
  Value ofParts = floorDiv(most, sizes.constant(isWhole ? 2 : 4));
  Value parts = isWhole ? wanted : one;
  for (int64_t doubling = 0; !isWhole && doubling < mostDoublings; ++doubling) {
    int64_t next = int64_t(2) << doubling;
    Value isReached =
        sizes.min(floorDiv(ratio, sizes.constant(next * next)), one);
    parts = sizes.create<arith::AddIOp>(
        parts, sizes.mul(isReached, sizes.constant(next / 2)));
  }
  Value blocks =
      sizes.ceilDiv(queries, sizes.constant(blocksPerPart * shape.queries));
  parts = sizes.min(parts, sizes.min(blocks, floorDiv(ofParts, ofPart)));
  parts = sizes.max(parts, one);

  Value ofItems =
      sizes.create<arith::AddIOp>(ofChunk, sizes.mul(parts, countSumBytes()));
  Value rest = sizes.create<arith::SubIOp>(most, sizes.mul(parts, ofPart));
  Value chunks = sizes.min(sizes.ceilDiv(wanted, parts), tiles);
  chunks = isWhole ? one : sizes.min(chunks, floorDiv(rest, ofItems));
  chunks = sizes.max(chunks, one);
  return {chunks, parts, sizes.mul(chunks, parts)};
}

BackwardCuts codegen::cutBackward(const Lowering &lowering,
                                  const BackwardShape &shape, bool ofAllHeads) {
  Cutter cutter(lowering, shape, ofAllHeads);
  if (lowering.target.granularity.cutsQueries)
    return cutter.cutBothSides();
  if (ofAllHeads)
    return cutter.cutInOrder();
  Value one = Sizes{lowering}.constant(1);
  // Scans go from tile to tile.
  Value chunks = lowering.plan.scans.empty() ? cutter.countChunks() : one;
  return {chunks, one, chunks};
}
