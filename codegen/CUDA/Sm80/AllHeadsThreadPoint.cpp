//===- AllHeadsThreadPoint.cpp - A score of all heads, of a thread --------===//

#include "codegen/CUDA/Sm80/AllHeadsThreadPoint.h"
#include "codegen/CUDA/Sm80/ColumnLoop.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

AllHeadsThreadPoint::AllHeadsThreadPoint(ThreadBuilder &thread,
                                         ArgumentBlock &arguments,
                                         const KernelPlan &plan,
                                         const SiteOperands &operands,
                                         const AllHeadsWeights &weights,
                                         unsigned packed)
    : ScorePoint(thread, arguments, plan, operands), weights(weights),
      packed(packed), start(*kernel.builder.getInsertionBlock()) {}

Value AllHeadsThreadPoint::coord(OpBuilder &builder, pos::Side side,
                                 int64_t axis) {
  return plan.hasPositions ? ScorePoint::coord(builder, side, axis)
                           : index(builder, side);
}

void AllHeadsThreadPoint::enterHead(int64_t head) {
  TilePoint::enterHead(headPlace.batch, head);
}

Value AllHeadsThreadPoint::getPacked(int64_t place) {
  return kernel.advance(arguments.getPointer(packed), {place});
}

Value AllHeadsThreadPoint::getBuffer(Value value, int64_t elements) {
  Value &buffer = buffers[value];
  if (!buffer)
    buffer = reserveNumbers(kernel, elements, start);
  return buffer;
}

//===----------------------------------------------------------------------===//
// Hoisted values
//===----------------------------------------------------------------------===//

/// Of the point, in tables over offsets.
Index AllHeadsThreadPoint::getEntry() {
  OpBuilder &builder = kernel.builder;
  Value offset = arith::SubIOp::create(builder, kernel.loc,
                                       tensorRow(builder, pos::Side::key),
                                       tensorRow(builder, pos::Side::query));
  return kernel.add(kernel.fromI32(offset),
                    operands.getFirstOffset(kernel, arguments));
}

/// Vectors are over offsets: under given positions a payload has none.
AllHeadsThreadPoint::Values
AllHeadsThreadPoint::loadElements(pos::HoistOp op, Index first, int64_t count) {
  const Hoisted *hoisted = plan.find(op);
  assert(hoisted->form == HoistForm::OffsetTable && !operands.offsetRange &&
         "vectors of payloads are over offsets of rows");
  unsigned table = *operands.tables[hoisted - plan.hoisted.data()];
  Index batch =
      getTableBatch(kernel, arguments, *hoisted, table, headPlace.batch);
  Index entry = getEntry();
  Values elements;
  for (int64_t number = 0; number < count; ++number)
    elements.push_back(kernel.load(
        kernel.f32, arguments.getAddress(
                        table, {batch, kernel.add(first, number), entry})));
  return elements;
}

Value AllHeadsThreadPoint::loadHoisted(const Hoisted &hoisted, unsigned,
                                       Value row) {
  Type type = tables.getStoredType(hoisted);
  Index entry = 0;
  switch (hoisted.form) {
  case HoistForm::OffsetTable:
    entry = getEntry();
    break;
  case HoistForm::QueryVector:
    entry = kernel.fromI32(tensorRow(kernel.builder, pos::Side::query));
    break;
  case HoistForm::KeyVector:
    entry = kernel.fromI32(tensorRow(kernel.builder, pos::Side::key));
    break;
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    llvm_unreachable("a score payload uses no value of this form");
  }
  return tables.load(hoisted, kernel.advance(row, {entry}, type), std::nullopt);
}
