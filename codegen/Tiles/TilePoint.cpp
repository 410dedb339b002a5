//===- TilePoint.cpp - What payloads see inside CPU kernels ---------------===//

#include "codegen/Tiles/TilePoint.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tiles/OffsetTile.h"
#include "codegen/Tiles/PiecewiseLinearTile.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void TilePoint::enterHead(Index batch, Index head) {
  headPlace.batch = batch;
  headPlace.head = head;
  batchValue = kernel.toI32(batch);
  headValue = kernel.toI32(head);
  headScalars.clear();
  tables.enterBatch();
  for (const Hoisted &hoisted : plan.hoisted) {
    if (hoisted.form != HoistForm::HeadScalar || hoisted.operand != operand)
      continue;
    FailureOr<Value> value = emitHoist(kernel.builder, hoisted.op, *this);
    kernel.check(value);
    headScalars[hoisted.op] =
        succeeded(value) ? *value
                         : kernel.zero(hoisted.op->getResult(0).getType());
  }
}

//===----------------------------------------------------------------------===//
// Where the point is
//===----------------------------------------------------------------------===//

Value TilePoint::head(OpBuilder &) { return headValue; }
Value TilePoint::batch(OpBuilder &) { return batchValue; }
Value TilePoint::lane(OpBuilder &) { return kernel.constantI32(0); }

Value TilePoint::scale(OpBuilder &) { return kernel.constantF32(plan.scale); }

FloatType TilePoint::getComputeType() { return kernel.builder.getF32Type(); }

Value TilePoint::offset(OpBuilder &builder, int64_t axis) {
  Value key = coord(builder, pos::Side::key, axis);
  Value query = coord(builder, pos::Side::query, axis);
  if (key.getType() != query.getType()) {
    key = kernel.broadcast(key);
    query = kernel.broadcast(query);
  }
  return arith::SubIOp::create(kernel.builder, kernel.loc, key, query);
}

//===----------------------------------------------------------------------===//
// Hoisted values and parameters
//===----------------------------------------------------------------------===//

Value TilePoint::hoisted(OpBuilder &, pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op, operand);
  assert(hoisted && "a point uses a value that the plan does not know");
  if (hoisted->form == HoistForm::HeadScalar)
    return headScalars.lookup(op);
  if (hoisted->form == HoistForm::OffsetTable && operands.offsetRange) {
    if (offsets == Offsets::Cells)
      return cells->load(op, getCellPlace());
    if (offsets == Offsets::InPlace) {
      FailureOr<Value> value = emitHoist(kernel.builder, op, *this);
      return succeeded(value) ? *value : Value();
    }
  }
  unsigned table = *operands.tables[hoisted - plan.hoisted.data()];
  Value row = arguments.getAddress(
      table,
      {getTableBatch(kernel, arguments, *hoisted, table, headPlace.batch),
       hoisted->perHead ? headPlace.head : Index(0)});
  return loadHoisted(*hoisted, table, row);
}

Value TilePoint::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  assert(hinges && "a point of scores has the functions that they use");
  return hinges->load(op, headPlace.head, getCellPlace());
}

/// Loads `element` at base[indices] in the lanes that are inside, `nothing`
/// elsewhere, where memory is not touched.
static Value gatherInside(KernelBuilder &kernel, Type element, Value base,
                          Value indices, Value inside, Value nothing) {
  OpBuilder &builder = kernel.builder;
  Value pointers = LLVM::GEPOp::create(
      builder, kernel.loc, VectorType::get(kernel.width(), kernel.pointer),
      element, base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(indices)},
      LLVM::GEPNoWrapFlags::none);
  return LLVM::masked_gather::create(
      builder, kernel.loc, VectorType::get(kernel.width(), element), pointers,
      kernel.broadcast(inside), ValueRange{kernel.broadcast(nothing)},
      builder.getI32IntegerAttr(element.getIntOrFloatBitWidth() / 8));
}

Value TilePoint::read(OpBuilder &, BlockArgument param, ValueRange indices) {
  unsigned tensor = *operands.params[param.getArgNumber()];
  Type element = cast<RankedTensorType>(param.getType()).getElementType();
  Value address = arguments.getPointer(tensor);
  OpBuilder &builder = kernel.builder;
  Value varying; // the offset that differs between lanes, i32
  Value inside = kernel.constant(builder.getBoolAttr(true));
  auto require = [&](Value condition) {
    if (condition.getType() != inside.getType()) {
      condition = kernel.broadcast(condition);
      inside = kernel.broadcast(inside);
    }
    inside = arith::AndIOp::create(builder, kernel.loc, inside, condition);
  };
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Index size = arguments.getSize(tensor, dim);
    Index stride = arguments.getStride(tensor, dim);
    if (!isa<VectorType>(index.getType())) {
      // The batch may be smaller in a parameter than in the query.
      Index place = index == batchValue ? kernel.rem(headPlace.batch, size)
                                        : Index(kernel.fromI32(index));
      if (index != batchValue) {
        Value isInside = kernel.compare(arith::CmpIPredicate::ult, place, size);
        require(isInside);
        place = kernel.select(isInside, place, 0);
      }
      address = kernel.advance(address, {kernel.mul(place, stride)}, element);
      continue;
    }
    require(arith::CmpIOp::create(builder, kernel.loc,
                                  arith::CmpIPredicate::ult, index,
                                  kernel.broadcast(kernel.toI32(size))));
    Value step = kernel.broadcast(kernel.toI32(stride));
    Value term = arith::MulIOp::create(builder, kernel.loc, index, step);
    varying = varying
                  ? arith::AddIOp::create(builder, kernel.loc, varying, term)
                        .getResult()
                  : term;
  }
  Value nothing = kernel.constant(
      isa<FloatType>(element)
          ? cast<TypedAttr>(builder.getFloatAttr(element, std::nan("")))
          : cast<TypedAttr>(builder.getZeroAttr(element)));
  if (varying)
    return gatherInside(kernel, element, address, varying, inside, nothing);
  return kernel.choose(
      inside, {element},
      [&]() -> KernelBuilder::Values {
        return {kernel.load(element, address)};
      },
      [&]() -> KernelBuilder::Values { return {nothing}; })[0];
}
