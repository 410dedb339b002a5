//===- BackwardPoint.cpp - Where the backward emits score payloads --------===//

#include "codegen/CPU/Backward/BackwardPoint.h"
#include "codegen/Tiles/PiecewiseLinearTile.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Where the point is
//===----------------------------------------------------------------------===//

Value BackwardPoint::index(OpBuilder &, pos::Side side) {
  if (side == pos::Side::key)
    return kernel.lanes(getKey());
  return kernel.toI32(headPlace.toIndex(side, getQuery()));
}

Value BackwardPoint::tensorRow(OpBuilder &builder, pos::Side side) {
  return side == pos::Side::key ? index(builder, side)
                                : kernel.toI32(getQuery());
}

/// Under given positions of one side, rows of the other side past its end
/// repeat the last one as well: no offset lies outside of those in use.
Value BackwardPoint::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  if (!plan.hasPositions)
    return index(builder, side);
  Index last = headPlace.getLast(side);
  if (side == pos::Side::query)
    return headPlace.getCoord(side, kernel.min(getQuery(), last), axis);
  Value rows =
      arith::MinSIOp::create(kernel.builder, kernel.loc, kernel.lanes(getKey()),
                             kernel.broadcast(kernel.toI32(last)));
  SiteOperands::Number positions = headPlace.findPositions(side);
  if (!positions)
    return rows;
  Index lane = kernel.mul(axis, arguments.getStride(*positions, 2));
  Value base =
      kernel.advance(headPlace.getPositions(*positions, 0), {lane}, kernel.i32);
  Value stride =
      kernel.broadcast(kernel.toI32(arguments.getStride(*positions, 1)));
  return kernel.gather(
      kernel.i32, base,
      arith::MulIOp::create(kernel.builder, kernel.loc, rows, stride));
}

Index BackwardPoint::getCellPlace() {
  return kernel.mul(
      kernel.add(kernel.mul(at.row, at.launch.shape.vectors), at.vector),
      kernel.width());
}

//===----------------------------------------------------------------------===//
// Hoisted values
//===----------------------------------------------------------------------===//

Value BackwardPoint::getLaneCodes() {
  return kernel.load(kernel.vi32, tables.getCode(pos::Side::key, getKey()));
}

Value BackwardPoint::getRowCode() {
  return kernel.load(kernel.i32, tables.getCode(pos::Side::query, getQuery()));
}

Value BackwardPoint::loadHoisted(const Hoisted &hoisted, unsigned,
                                 Value headStart) {
  Type element = tables.getStoredType(hoisted);
  Index lastQuery = headPlace.getLast(pos::Side::query);
  switch (hoisted.form) {
  case HoistForm::OffsetTable: {
    if (operands.offsetRange)
      return tables.loadAtOffsets(
          hoisted, headStart, [&] { return getLaneCodes(); },
          [&] { return getRowCode(); });
    Index start = kernel.sub(kernel.add(at.firstKey, lastQuery), at.firstQuery);
    Index inCell = kernel.sub(
        kernel.add(operands.offsetTables.padding, at.getLane()), at.row);
    return tables.load(hoisted,
                       kernel.advance(headStart, {start, inCell}, element),
                       kernel.width());
  }
  case HoistForm::QueryVector:
    return tables.load(
        hoisted,
        kernel.advance(headStart, {kernel.min(getQuery(), lastQuery)}, element),
        std::nullopt);
  case HoistForm::KeyVector:
    return tables.load(
        hoisted, kernel.advance(headStart, {getKey()}, element),
        kernel.sub(arguments.getSize(operands.key, 2), getKey()));
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    break;
  }
  llvm_unreachable("not a table of a score payload");
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

bool BackwardPoint::wantsGradient(pos::HoistOp hoist) {
  const Hoisted *hoisted = plan.find(hoist);
  return hoisted && hoisted->wantsGradient;
}

bool BackwardPoint::wantsGradient(BlockArgument param) {
  return plan.paramWantsGradient[param.getArgNumber()];
}

Value BackwardPoint::pullHingeSum(OpBuilder &, pos::HingeSumOp op,
                                  Value cotangent) {
  return hinges->pull(op, headPlace.head, getCellPlace(), cotangent);
}

bool BackwardPoint::wantsUnits(pos::HingeSumOp op) {
  return plan.hinges[plan.findHinges(op)].wantsGradient;
}

void BackwardPoint::addToHoisted(OpBuilder &, pos::HoistOp hoist,
                                 Value cotangent) {
  for (HoistCotangent &known : cotangents)
    if (known.hoist == hoist) {
      known.value = kernel.addF(known.value, cotangent);
      return;
    }
  cotangents.push_back({hoist, cotangent});
}

/// The part of an item, where `at` stands, of the sums of a parameter that
/// tiles read themselves, as `PayloadGradients` makes them.
static Value getReadSums(const CellVector &at, ArgumentBlock &arguments,
                         unsigned param) {
  const BackwardLaunch &launch = at.launch;
  const TileReads &reads = launch.plan.tileReads[param];
  Index batch = at.place.batch;
  if (reads.batchDim)
    batch = at.place.kernel.div(
        batch, arguments.getSize(*launch.sites.params[param], *reads.batchDim));
  return arguments.getAddress(*launch.readGradients[param],
                              {reads.areOfPairs() ? Index(0) : at.sum, batch,
                               reads.headDim ? Index(0) : at.kvHead});
}

void BackwardPoint::addToRead(OpBuilder &builder, BlockArgument param,
                              ValueRange indices, Value cotangent) {
  if (scans.getSweep() == BackwardScans::Sweep::Totals)
    return;
  unsigned number = param.getArgNumber(), tensor = *operands.params[number];
  Value sums = getReadSums(at, arguments, number);
  // Of a lane, or of all lanes.
  auto addAt = [&](function_ref<Value(Value)> inLane,
                   function_ref<void(Index entry)> add) {
    auto [entry, inside] =
        headPlace.findEntry(number, indices, batch(builder), inLane);
    kernel.when(inside, [&, found = entry] { add(found); });
  };
  auto add = [&](function_ref<Value(Value)> inLane, Value addend) {
    addAt(inLane, [&](Index entry) {
      kernel.addToF64(kernel.advance(sums, {entry}, kernel.f64), addend);
    });
  };
  auto isVector = [](Value value) { return isa<VectorType>(value.getType()); };
  if (llvm::none_of(indices, isVector)) {
    add([](Value index) { return index; },
        isVector(cotangent) ? kernel.sumLanes(cotangent) : cotangent);
    return;
  }
  Value lanes = kernel.broadcast(cotangent);
  // The keys of the lanes follow each other in memory.
  if (plan.tileReads[number].alongKeys &&
      llvm::none_of(indices.drop_back(), isVector)) {
    Value first = kernel.toI32(getKey());
    Index extent = arguments.getSize(tensor, indices.size() - 1);
    addAt([&](Value index) { return isVector(index) ? first : index; },
          [&](Index entry) {
            Value to = kernel.advance(sums, {entry}, kernel.f64);
            Index count =
                kernel.min(kernel.width(), kernel.sub(extent, getKey()));
            Value sum = kernel.loadPart(kernel.vf64, to, count);
            kernel.storePart(kernel.addF64(sum, kernel.widen(lanes)), to,
                             count);
          });
    return;
  }
  kernel.loop(0, kernel.width(), 1, [&](Value lane) {
    auto extract = [&](Value vector) -> Value {
      if (!isVector(vector))
        return vector;
      return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, vector,
                                            lane);
    };
    add(extract, extract(lanes));
  });
}
