//===- TurnEmitter.cpp - What the kernels of a turn do with a row ---------===//

#include "codegen/Tables/TurnEmitter.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpIPredicate;

static pos::Side getSide(pos::RowOperand operand) {
  return operand == pos::RowOperand::key ? pos::Side::key : pos::Side::query;
}

//===----------------------------------------------------------------------===//
// The point
//===----------------------------------------------------------------------===//

TurnPoint::TurnPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
                     const PointLayout &layout, const KernelPlan &plan,
                     const RowTurn &turn)
    : HeadPoint(kernel, arguments, layout, plan), turn(turn),
      coordinates(turn.operands.size()) {
  for (Coordinates &of : coordinates)
    pos::TurnRowsOp(turn.op).walk([&](Operation *op) {
      if (auto coord = dyn_cast<pos::CoordOp>(op))
        of.insert({coord.getAxis(), Value()});
      else if (isa<pos::TensorRowOp>(op))
        of.insert({tensorRowAxis, Value()});
    });
}

void TurnPoint::moveToRow(Index batch, Index head, Index fromEnd) {
  moveTo(batch, head);
  row = kernel.toI32(kernel.sub(getExtent(pos::Extent::key), fromEnd));
  for (auto [operand, of] : llvm::zip_equal(turn.operands, coordinates)) {
    pos::Side side = getSide(operand);
    Index length =
        side == pos::Side::key
            ? getExtent(pos::Extent::key)
            : kernel.add(getExtent(pos::Extent::query), getQueryTail());
    Value place = kernel.toI32(kernel.sub(length, fromEnd));
    for (auto &[axis, value] : of) {
      if (axis == tensorRowAxis) {
        value = place;
        continue;
      }
      Value given = getPosition(side, axis, place);
      value = given ? given : row;
    }
  }
  current = coordinates.front();
}

Value TurnPoint::areSame() {
  Value same = kernel.constantI1(true);
  for (auto [first, second] :
       llvm::zip_equal(coordinates.front(), coordinates.back()))
    if (first.second != second.second) {
      Value equal =
          arith::CmpIOp::create(kernel.builder, kernel.loc, CmpIPredicate::eq,
                                first.second, second.second);
      same = kernel.both(same, equal);
    }
  return same;
}

void TurnPoint::stand(Value atFirst) {
  for (auto &[axis, value] : current)
    value = arith::SelectOp::create(kernel.builder, kernel.loc, atFirst,
                                    coordinates.front()[axis],
                                    coordinates.back()[axis]);
}

//===----------------------------------------------------------------------===//
// Scratch memory and numbers of items
//===----------------------------------------------------------------------===//

TurnEmitter::TurnEmitter(const Lowering &lowering, const RowTurn &turn,
                         KernelBuilder &kernel, ArgumentBlock &arguments,
                         const PointLayout &layout, ArrayRef<unsigned> rows,
                         Value scratch)
    : lowering(lowering), turn(turn), k(kernel), arguments(arguments),
      layout(layout), rows(rows), matrix(kernel, turn.size),
      point(kernel, arguments, layout, lowering.plan, turn), next(scratch),
      isTurned(turn.operands.size()) {}

/// Vectors of f32 are stored: the last row is read to the end of one.
int64_t TurnEmitter::getChunkElements(KernelBuilder &kernel,
                                      const MatrixExponential &matrix) {
  constexpr int64_t elementsPerLine = 8;
  return llvm::alignTo(chunk * matrix.getStride() + kernel.width(),
                       std::max(elementsPerLine, matrix.getLanes()));
}

int64_t TurnEmitter::getScratchBytes(KernelBuilder &kernel, const RowTurn &turn,
                                     int64_t matrices) {
  MatrixExponential matrix(kernel, turn.size);
  return sizeof(double) * (matrices * matrix.getElements() +
                           2 * getChunkElements(kernel, matrix));
}

Value TurnEmitter::take(int64_t elements) {
  Value address = next;
  next = k.advance(next, {elements}, k.f64);
  return address;
}

SmallVector<Value> TurnEmitter::takeMatrices(int64_t count) {
  SmallVector<Value> matrices;
  for (int64_t number = 0; number < count; ++number)
    matrices.push_back(take(matrix.getElements()));
  return matrices;
}

Value TurnEmitter::takeChunk() {
  int64_t elements = getChunkElements(k, matrix);
  Value rows = take(elements);
  matrix.clearElements(rows, elements);
  return rows;
}

Block &TurnEmitter::getPayload() {
  pos::TurnRowsOp op = turn.op;
  return op.getBody().front();
}

Index TurnEmitter::countBatches() {
  if (turn.perBatch)
    return arguments.getSize(rows.front(), 0);
  Index most = 1, least = 1;
  for (pos::RowOperand operand : turn.operands)
    if (std::optional<unsigned> positions = operand == pos::RowOperand::key
                                                ? layout.keyPositions
                                                : layout.queryPositions) {
      Index size = arguments.getSize(*positions, 0);
      least = k.max(k.min(most, size), 1);
      most = k.max(most, size);
    }
  // Of 2 and 3 elements both repeat together in the batch alone.
  return k.select(k.equal(k.rem(most, least), 0), most,
                  arguments.getSize(rows.front(), 0));
}

Index TurnEmitter::countHeads() {
  if (!turn.perHead)
    return 1;
  Index count = arguments.getSize(rows.front(), 1);
  return k.max(count, arguments.getSize(rows.back(), 1));
}

Index TurnEmitter::getTail(size_t operand) {
  bool isQuery = turn.operands[operand] == pos::RowOperand::query;
  return isQuery && layout.queryTail ? arguments.getSize(*layout.queryTail, 0)
                                     : Index(0);
}

Index TurnEmitter::getLength(size_t operand) {
  return k.add(arguments.getSize(rows[operand], 2), getTail(operand));
}

Index TurnEmitter::countRows() {
  return k.max(getLength(0), getLength(rows.size() - 1));
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

void TurnEmitter::forEachMatrix(Index inBatch, Index inHead, Index at,
                                function_ref<void()> body) {
  batch = inBatch;
  head = inHead;
  fromEnd = k.sub(countRows(), at);
  point.moveToRow(batch, head, fromEnd);
  if (turn.operands.size() == 1) {
    if (layout.queryTail)
      k.when(k.less(getTail(0), fromEnd), body);
    else
      body();
    return;
  }

  Value never = k.constantI1(false), always = k.constantI1(true);
  SmallVector<Value, 2> exists;
  for (auto [operand, tensor] : llvm::enumerate(rows)) {
    Value isRow = k.compare(CmpIPredicate::sle, fromEnd, getLength(operand));
    if (layout.queryTail)
      isRow = k.both(isRow, k.less(getTail(operand), fromEnd));
    if (turn.perHead)
      isRow = k.both(isRow, k.less(head, arguments.getSize(tensor, 1)));
    exists.push_back(isRow);
  }
  Value areApart =
      k.selectF(point.areSame(), never, k.both(exists[0], exists[1]));
  k.loop(0, k.select(areApart, 2, 1), 1, [&](Value pass) {
    Value isFirst = k.equal(pass, 0);
    isTurned[0] = k.both(exists[0], isFirst);
    isTurned[1] =
        k.both(exists[1],
               k.selectF(isFirst, k.selectF(areApart, never, always), always));
    point.stand(isTurned[0]);
    body();
  });
}

void TurnEmitter::fill(Value address, Index block, bool isTransposed) {
  matrix.clear(address, turn.size);
  k.loop(0, turn.size, 1, [&](Value row) {
    k.loop(0, turn.size, 1, [&](Value column) {
      SmallVector<Value> element =
          callPayload(k, getPayload(),
                      {k.toI32(block), k.toI32(row), k.toI32(column)}, point);
      if (isTransposed)
        matrix.store(element.front(), address, column, row);
      else
        matrix.store(element.front(), address, row, column);
    });
  });
}

void TurnEmitter::pullMatrix(Value gradient, Index block) {
  k.loop(0, turn.size, 1, [&](Value row) {
    k.loop(0, turn.size, 1, [&](Value column) {
      callPullback(k, getPayload(),
                   {k.toI32(block), k.toI32(row), k.toI32(column)},
                   {matrix.load(gradient, column, row)}, point);
    });
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void TurnEmitter::forEachChunk(size_t operand,
                               function_ref<void(Index, Index)> body) {
  auto run = [&] {
    Index count = k.ceilDiv(k.sub(arguments.getSize(rows[operand], 0), batch),
                            countBatches());
    if (!turn.perHead)
      count = k.mul(count, arguments.getSize(rows[operand], 1));
    k.loop(0, count, chunk, [&](Value first) {
      body(first, k.min(k.sub(count, first), chunk));
    });
  };
  if (isTurned[operand])
    k.when(isTurned[operand], run);
  else
    run();
}

/// The address of one of the rows that `forEachChunk` counts.
Value TurnEmitter::getRow(unsigned tensor, size_t operand, Index number) {
  Index heads = turn.perHead ? 1 : arguments.getSize(rows[operand], 1);
  Index inBatch = k.add(batch, k.mul(k.div(number, heads), countBatches()));
  Index inHead = turn.perHead ? head : k.rem(number, heads);
  Index place = k.sub(getLength(operand), fromEnd);
  return arguments.getAddress(tensor, {inBatch, inHead, place});
}

void TurnEmitter::loadBlocks(unsigned tensor, size_t operand, Index first,
                             Index count, Index block, Value to) {
  Type element = arguments.getElementType(tensor);
  Type f64 = k.f64;
  Index step = arguments.getStride(tensor, 3);
  Index start = k.mul(block, turn.size);
  auto loadLanes = [&](Value from, Index lane, Value target, int64_t lanes) {
    auto of = [&](Type type) -> Type {
      return lanes == 1 ? type : VectorType::get(lanes, type);
    };
    Value value = k.load(of(element), from);
    // No target has an instruction from 16 bits to f64.
    if (element.getIntOrFloatBitWidth() == 16)
      value = arith::ExtFOp::create(k.builder, k.loc, of(k.f32), value);
    if (!element.isF64())
      value = arith::ExtFOp::create(k.builder, k.loc, of(f64), value);
    k.store(value, k.advance(target, {lane}, f64));
  };
  int64_t lanes = k.target.countDoubleLanes();
  int64_t whole = turn.size / lanes * lanes;
  k.loop(0, count, 1, [&](Value number) {
    Value from = k.advance(getRow(tensor, operand, k.add(first, number)),
                           {k.mul(start, step)}, element);
    Value target = k.advance(to, {k.mul(number, matrix.getStride())}, f64);
    auto loadEach = [&](Index begin) {
      k.loop(begin, turn.size, 1, [&](Value lane) {
        loadLanes(k.advance(from, {k.mul(lane, step)}, element), lane, target,
                  1);
      });
    };
    k.when(
        k.equal(step, 1),
        [&] {
          k.loop(0, whole, lanes, [&](Value lane) {
            loadLanes(k.advance(from, {lane}, element), lane, target, lanes);
          });
          loadEach(whole);
        },
        [&] { loadEach(0); });
  });
}

void TurnEmitter::storeBlocks(Value from, unsigned tensor, size_t operand,
                              Index first, Index count, Index block) {
  Type element = arguments.getElementType(tensor);
  Type f64 = k.f64;
  auto wide = VectorType::get(k.width(), f64);
  k.loop(0, count, 1, [&](Value number) {
    Value to = k.advance(getRow(tensor, operand, k.add(first, number)),
                         {k.mul(block, turn.size)}, element);
    Value row = k.advance(from, {k.mul(number, matrix.getStride())}, f64);
    for (int64_t lane = 0; lane < turn.size; lane += k.width()) {
      Value value = k.load(wide, k.advance(row, {lane}, f64));
      if (!element.isF64())
        value = k.roundTo(k.narrow(value), element);
      k.storePart(value, k.advance(to, {lane}, element),
                  std::min(k.width(), turn.size - lane));
    }
  });
}

void TurnEmitter::copyRest(unsigned from, unsigned to, size_t operand) {
  if (arguments.getSize(from, 3).is(turn.blocks * turn.size))
    return;
  Type element = arguments.getElementType(from);
  Type stored = arguments.getElementType(to);
  Index step = arguments.getStride(from, 3);
  forEachChunk(operand, [&](Index first, Index count) {
    k.loop(first, k.add(first, count), 1, [&](Value number) {
      Value source = getRow(from, operand, number);
      Value target = getRow(to, operand, number);
      k.loop(turn.blocks * turn.size, arguments.getSize(from, 3), 1,
             [&](Value lane) {
               Value value = k.load(
                   element, k.advance(source, {k.mul(lane, step)}, element));
               if (element != stored)
                 value =
                     arith::TruncFOp::create(k.builder, k.loc, stored, value);
               k.store(value, k.advance(target, {lane}, stored));
             });
    });
  });
}
