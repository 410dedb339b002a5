//===- PosContext.cpp - Context ops: dependence, value, range -------------===//
//
// Each context op answers three questions: which axes it varies with, what its
// value is at a point, and between which bounds it lies over a tile.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"

using namespace mlir;
using namespace sextant::pos;

static Axis axisOf(Side side) {
  switch (side) {
  case Side::query:
    return Axis::query;
  case Side::key:
    return Axis::key;
  case Side::self:
    return Axis::self;
  }
  llvm_unreachable("a side is self, query or key");
}

static ValueRange32 single(Value value) { return {value, value, indexBits}; }

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

AxisSet IndexOp::getDependence(bool hasPositions) { return axisOf(getSide()); }
Value IndexOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.index(builder, getSide());
}
ValueRange32 IndexOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return tile.index(builder, getSide());
}

AxisSet TensorRowOp::getDependence(bool hasPositions) {
  return axisOf(getSide());
}
Value TensorRowOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.tensorRow(builder, getSide());
}
/// Reads at a row are bounded as vectors over rows are, whatever they read.
ValueRange32 TensorRowOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return getSide() == Side::key ? tile.index(builder, Side::key)
                                : ValueRange32();
}

AxisSet CoordOp::getDependence(bool hasPositions) {
  AxisSet set = axisOf(getSide());
  return hasPositions ? set | Axis::batch : set;
}
Value CoordOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.coord(builder, getSide(), getAxis());
}
ValueRange32 CoordOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return tile.coord(builder, getSide(), getAxis());
}

/// Tables run over the offsets of all axes.
AxisSet OffsetOp::getDependence(bool) { return Axis::offset; }
Value OffsetOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.offset(builder, getAxis());
}
ValueRange32 OffsetOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  ValueRange32 query = tile.coord(builder, Side::query, getAxis());
  ValueRange32 key = tile.coord(builder, Side::key, getAxis());
  if (!query.known() || !key.known())
    return {};
  return emitDifference(builder, getLoc(), key, query);
}

//===----------------------------------------------------------------------===//
// Head, batch, lane
//===----------------------------------------------------------------------===//

AxisSet HeadOp::getDependence(bool) { return Axis::head; }
Value HeadOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.head(builder);
}
ValueRange32 HeadOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return single(tile.head(builder));
}

AxisSet BatchOp::getDependence(bool) { return Axis::batch; }
Value BatchOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.batch(builder);
}
ValueRange32 BatchOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return single(tile.batch(builder));
}

AxisSet LaneOp::getDependence(bool) { return Axis::lane; }
Value LaneOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.lane(builder);
}
ValueRange32 LaneOp::emitRange(OpBuilder &, TileBounds &) { return {}; }

//===----------------------------------------------------------------------===//
// Constants of a call
//===----------------------------------------------------------------------===//

AxisSet ExtentOp::getDependence(bool) { return {}; }
Value ExtentOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.extent(builder, getExtent());
}
ValueRange32 ExtentOp::emitRange(OpBuilder &builder, TileBounds &tile) {
  return single(tile.extent(builder, getExtent()));
}

AxisSet BoundOp::getDependence(bool) { return {}; }
Value BoundOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.bound(builder, getBound(), getSide(), getAxis());
}
ValueRange32 BoundOp::emitRange(OpBuilder &, TileBounds &) { return {}; }

LogicalResult BoundOp::verify() {
  if (getSide() == Side::self)
    return emitOpError("is of query or key, not of self (B1)");
  return success();
}

AxisSet ScaleOp::getDependence(bool) { return {}; }
Value ScaleOp::materialize(OpBuilder &builder, SitePoint &point) {
  return point.scale(builder);
}
ValueRange32 ScaleOp::emitRange(OpBuilder &, TileBounds &) { return {}; }

//===----------------------------------------------------------------------===//
// Reads, sums
//===----------------------------------------------------------------------===//

LogicalResult ReadOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  Type type = cast<ShapedType>(adaptor.getTensor().getType()).getElementType();
  types.push_back(type.isF64() ? Float32Type::get(type.getContext()) : type);
  return success();
}

LogicalResult ReadOp::verify() {
  auto rank = getTensor().getType().getRank();
  if (static_cast<int64_t>(getIndices().size()) != rank)
    return emitOpError("expected one index per dimension: ")
           << rank << ", got " << getIndices().size();
  return success();
}

static LogicalResult verifyTerms(Operation *sum, Block &block) {
  if (block.getNumArguments() != 1 ||
      !block.getArgument(0).getType().isInteger(32))
    return sum->emitOpError("expected one block argument of type i32");
  Type type = sum->getResult(0).getType();
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getNumOperands() != 1 ||
      yield.getOperand(0).getType() != type)
    return sum->emitOpError("body must yield (") << type << ")";
  return success();
}

LogicalResult SumOp::verifyRegions() {
  return verifyTerms(*this, getBody().front());
}

SmallVector<TableRead> ReadOp::getTableReads() {
  SmallVector<TableRead> reads;
  for (auto [dim, index] : llvm::enumerate(getIndices()))
    reads.push_back({getTensor(), static_cast<unsigned>(dim), index});
  return reads;
}

AxisSet RunningSumOp::getOwnAxes() {
  return getSide() == Side::query ? Axis::query : Axis::key;
}

LogicalResult RunningSumOp::verifyRegions() {
  if (getSide() == Side::self)
    return emitOpError("runs to query or key, not to self (R1)");
  if (failed(verifyTerms(*this, getBody().front())))
    return failure();
  Dependence dependence(/*hasPositions=*/true);
  AxisSet shared{Axis::batch, Axis::head};
  WalkResult result = getBody().walk([&](Operation *op) {
    bool varies = !shared.contains(dependence.of(op->getOperands()) |
                                   dependence.of(op->getResults()));
    if (!varies)
      return WalkResult::advance();
    InFlightDiagnostic diag = emitOpError(
        "body must vary with its argument, batch and head only (R2)");
    diag.attachNote(op->getLoc()) << "'" << op->getName() << "' does not";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
