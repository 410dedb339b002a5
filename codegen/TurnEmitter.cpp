//===- TurnEmitter.cpp - What the kernels of a turn do with a row ---------===//

#include "codegen/TurnEmitter.h"
#include "codegen/Payload.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Index TurnEmitter::countBatches() {
  if (turn.perBatch)
    return arguments.getSize(rows, 0);
  std::optional<unsigned> positions = turn.operand == pos::RowOperand::key
                                          ? layout.keyPositions
                                          : layout.queryPositions;
  return positions ? arguments.getSize(*positions, 0) : Index(1);
}

void TurnEmitter::fill(Value address, Index block, bool isTransposed) {
  matrix.clear(address, matrix.getElements());
  k.loop(0, turn.size, 1, [&](Value row) {
    k.loop(0, turn.size, 1, [&](Value column) {
      FailureOr<SmallVector<Value>> element =
          emitPayload(k.builder, getPayload(),
                      {k.toI32(block), k.toI32(row), k.toI32(column)}, point);
      if (mlir::failed(element)) {
        failed = true;
        return;
      }
      if (isTransposed)
        matrix.store(element->front(), address, column, row);
      else
        matrix.store(element->front(), address, row, column);
    });
  });
}

void TurnEmitter::pullMatrix(Value gradient, Index block) {
  k.loop(0, turn.size, 1, [&](Value row) {
    k.loop(0, turn.size, 1, [&](Value column) {
      if (mlir::failed(
              emitPullback(k.builder, getPayload(),
                           {k.toI32(block), k.toI32(row), k.toI32(column)},
                           {matrix.load(gradient, column, row)}, point)))
        failed = true;
    });
  });
}

void TurnEmitter::loopOverRows(Index batch, Index head,
                               function_ref<void(Index, Index)> body) {
  k.loop(batch, arguments.getSize(rows, 0), countBatches(), [&](Value b) {
    if (turn.perHead)
      return body(b, head);
    k.loop(0, arguments.getSize(rows, 1), 1, [&](Value h) { body(b, h); });
  });
}

void TurnEmitter::loadBlock(unsigned tensor, ArrayRef<Index> row, Index block,
                            Value to) {
  Type element = arguments.getElementType(tensor);
  Type f64 = k.builder.getF64Type();
  Value from = arguments.getAddress(tensor, row);
  Index step = arguments.getStride(tensor, 3);
  Index first = k.mul(block, turn.size);
  k.loop(0, turn.size, 1, [&](Value lane) {
    Value at = k.advance(from, {k.mul(k.add(first, lane), step)}, element);
    Value value = k.load(element, at);
    if (!element.isF64())
      value = arith::ExtFOp::create(k.builder, k.loc, f64, value);
    k.store(value, k.advance(to, {lane}, f64));
  });
}

void TurnEmitter::storeBlock(Value from, unsigned tensor, ArrayRef<Index> row,
                             Index block) {
  Type element = arguments.getElementType(tensor);
  Value to = k.advance(arguments.getAddress(tensor, row),
                       {k.mul(block, turn.size)}, element);
  auto wide = VectorType::get(k.width(), k.builder.getF64Type());
  for (int64_t lane = 0; lane < turn.size; lane += k.width()) {
    Value value = k.load(wide, k.advance(from, {lane}, k.builder.getF64Type()));
    if (!element.isF64())
      value = arith::TruncFOp::create(k.builder, k.loc, k.vf32, value);
    if (element.isBF16())
      value = k.truncate(value);
    k.storePart(value, k.advance(to, {lane}, element),
                std::min(k.width(), turn.size - lane));
  }
}

void TurnEmitter::copyRest(unsigned from, unsigned to, ArrayRef<Index> row) {
  Type element = arguments.getElementType(from);
  Type stored = arguments.getElementType(to);
  Index step = arguments.getStride(from, 3);
  Value source = arguments.getAddress(from, row);
  Value target = arguments.getAddress(to, row);
  k.loop(turn.blocks * turn.size, arguments.getSize(from, 3), 1,
         [&](Value lane) {
           Value value = k.load(
               element, k.advance(source, {k.mul(lane, step)}, element));
           if (element != stored)
             value = arith::TruncFOp::create(k.builder, k.loc, stored, value);
           k.store(value, k.advance(target, {lane}, stored));
         });
}
