//===- HoistedTables.cpp - Entries of tables of hoisted values ------------===//

#include "codegen/Tiles/HoistedTables.h"
#include "codegen/Tiles/TableRows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void HoistedTables::enterBatch() {
  if (!place.operands.offsetRange)
    return;
  auto getCodes = [&](unsigned codes) {
    Index element = kernel.rem(place.batch, place.arguments.getSize(codes, 0));
    return place.arguments.getAddress(codes, {element});
  };
  queryCodes = getCodes(*place.operands.queryCodes);
  keyCodes = getCodes(*place.operands.keyCodes);
}

Value HoistedTables::getCode(pos::Side side, Index row) const {
  Value codes = side == pos::Side::key ? keyCodes : queryCodes;
  return kernel.advance(codes, {row}, kernel.i32);
}

void HoistedTables::forCodes(Value codes, function_ref<void(Value run)> body) {
  Value first = LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                               codes, kernel.constantI32(0));
  Value areNeighbours = arith::CmpIOp::create(
      kernel.builder, kernel.loc, arith::CmpIPredicate::eq, codes,
      kernel.lanes(kernel.fromI32(first)));
  kernel.when(
      holdsInAll(kernel, areNeighbours),
      [&] {
        run = first;
        body(run);
        run = {};
      },
      [&] { body({}); });
}

Value HoistedTables::loadAtOffsets(const Hoisted &hoisted, Value headStart,
                                   Codes getLaneCodes, Codes getRowCode) const {
  Type type = getStoredType(hoisted);
  auto minusRow = [&](Value codes) -> Value {
    Value row = getRowCode();
    if (isa<VectorType>(codes.getType()))
      row = kernel.broadcast(row);
    return arith::SubIOp::create(kernel.builder, kernel.loc, codes, row);
  };
  if (!run)
    return fromStored(hoisted,
                      kernel.gather(type, headStart, minusRow(getLaneCodes())));
  Value first =
      kernel.advance(headStart, {kernel.fromI32(minusRow(run))}, type);
  return fromStored(hoisted,
                    kernel.load(VectorType::get(kernel.width(), type), first));
}

Type HoistedTables::getStoredType(const Hoisted &hoisted) const {
  Type type = hoisted.op->getResult(0).getType();
  return type.isInteger(1) ? kernel.builder.getI8Type() : type;
}

Value HoistedTables::fromStored(const Hoisted &hoisted, Value value) const {
  if (!hoisted.op->getResult(0).getType().isInteger(1))
    return value;
  Value zero = kernel.zero(value.getType());
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, value, zero);
}

Value HoistedTables::load(const Hoisted &hoisted, Value address,
                          std::optional<Index> count) const {
  Type type = getStoredType(hoisted);
  Value value = count ? kernel.loadPart(VectorType::get(kernel.width(), type),
                                        address, *count)
                      : kernel.load(type, address);
  return fromStored(hoisted, value);
}
