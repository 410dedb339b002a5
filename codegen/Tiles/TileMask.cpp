//===- TileMask.cpp - What the mask says of a tile of scores --------------===//

#include "codegen/Tiles/TileMask.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Side;
using pos::ValueRange32;

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

namespace {
/// The bounds of a tile of two sides.
class SidesTile : public pos::TileBounds {
public:
  SidesTile(KernelBuilder &kernel, TilePoint &point,
            ArrayRef<RowSource> sources, Index shift, const TileSide &query,
            const TileSide &key)
      : kernel(kernel), point(point), sources(sources), shift(shift),
        query(query), key(key) {}

  ValueRange32 index(OpBuilder &, Side side) override {
    const TileSide &rows = get(side);
    Index start = side == Side::key ? Index(0) : shift;
    return {kernel.toI32(kernel.add(rows.first, start)),
            kernel.toI32(kernel.add(rows.last, start)), pos::indexBits};
  }
  ValueRange32 coord(OpBuilder &builder, Side side, int64_t axis) override {
    for (auto [number, source] : llvm::enumerate(sources))
      if (!source.hoisted && source.side == side && source.axis == axis)
        return get(side).values[number];
    return index(builder, side);
  }
  Value head(OpBuilder &builder) override { return point.head(builder); }
  Value batch(OpBuilder &builder) override { return point.batch(builder); }
  Value extent(OpBuilder &builder, pos::Extent extent) override {
    return point.extent(builder, extent);
  }

  ValueRange32 hoisted(OpBuilder &builder, const Hoisted &hoisted) {
    if (hoisted.form == HoistForm::HeadScalar) {
      Value value = point.hoisted(builder, hoisted.op);
      return {value, value};
    }
    for (auto [number, source] : llvm::enumerate(sources))
      if (source.hoisted == &hoisted)
        return get(source.side).values[number];
    return {};
  }

private:
  const TileSide &get(Side side) { return side == Side::key ? key : query; }

  KernelBuilder &kernel;
  TilePoint &point;
  ArrayRef<RowSource> sources;
  Index shift; ///< from a row of the queries to its index
  const TileSide &query, &key;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sides
//===----------------------------------------------------------------------===//

/// The range over the blocks of rows `first` to `last`, which may be one.
ValueRange32 TileMask::getRange(unsigned number, Index first, Index last,
                                bool isOne) {
  unsigned tensor = *operands.ranges[number];
  const Hoisted *hoisted = sources[number].hoisted;
  Type type = arguments.getElementType(tensor);
  auto [batch, head] = point.getPlace();
  Index inBatch = kernel.rem(batch, arguments.getSize(tensor, 1));
  Index inHead = hoisted && hoisted->perHead ? head : Index(0);
  Value ends[] = {arguments.getAddress(tensor, {0, inBatch, inHead}),
                  arguments.getAddress(tensor, {1, inBatch, inHead})};
  auto load = [&](int64_t end, Index block) {
    return kernel.load(type, kernel.advance(ends[end], {block}, type));
  };
  auto join = [&](ValueRange known, Value low,
                  Value high) -> KernelBuilder::Values {
    OpBuilder &builder = kernel.builder;
    if (isa<FloatType>(type)) // either NaN gives NaN
      return {arith::MinimumFOp::create(builder, kernel.loc, known[0], low),
              arith::MaximumFOp::create(builder, kernel.loc, known[1], high)};
    return {arith::MinSIOp::create(builder, kernel.loc, known[0], low),
            arith::MaxSIOp::create(builder, kernel.loc, known[1], high)};
  };
  Index block = kernel.div(first, rowsPerRange);
  KernelBuilder::Values range{load(0, block), load(1, block)};
  if (!isOne)
    range = kernel.loop(kernel.add(block, 1),
                        kernel.add(kernel.div(last, rowsPerRange), 1), 1, range,
                        [&](Value next, ValueRange known) {
                          return join(known, load(0, next), load(1, next));
                        });
  if (hoisted && hoisted->op->getResult(0).getType().isInteger(1))
    for (Value &end : range)
      end = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                  arith::CmpIPredicate::ne, end,
                                  kernel.constantI32(0));
  return {range[0], range[1]};
}

TileSide TileMask::enter(Side side, Index first, Index count, int64_t unit) {
  TileSide rows;
  rows.first = first;
  rows.last = kernel.sub(kernel.add(first, count), 1);
  for (unsigned number = 0; number < sources.size(); ++number)
    rows.values.push_back(sources[number].side == side
                              ? getRange(number, rows.first, rows.last,
                                         /*isOne=*/rowsPerRange % unit == 0)
                              : ValueRange32());
  return rows;
}

TileClass TileMask::classify(const TileSide &query, const TileSide &key) {
  if (!plan.mask)
    return {};
  Index shift = operands.getQueryShift(kernel, arguments);
  SidesTile tile(kernel, point, sources, shift, query, key);
  return emitTileClass(kernel.builder, plan.mask, tile,
                       [&](OpBuilder &builder, pos::HoistOp op) {
                         const Hoisted *hoisted = plan.find(op);
                         return hoisted ? tile.hoisted(builder, *hoisted)
                                        : ValueRange32();
                       });
}

bool codegen::variesWith(const KernelPlan &plan, pos::Axis axis) {
  assert((axis == pos::Axis::head || axis == pos::Axis::batch) &&
         "tiles have all else");
  pos::MaskOp mask = plan.mask;
  if (!mask)
    return false;
  bool isHead = axis == pos::Axis::head, varies = false;
  mask->walk([&](Operation *op) {
    varies |= isHead ? isa<pos::HeadOp>(op) : isa<pos::BatchOp>(op);
    for (Value operand : op->getOperands())
      if (auto hoist = operand.getDefiningOp<pos::HoistOp>()) {
        const Hoisted *hoisted = plan.find(hoist);
        varies |= isHead ? hoisted->perHead : hoisted->perBatch;
      }
  });
  return varies;
}
