//===- ReferenceRows.cpp - Scratch matrices, row maps in and out ----------===//

#include "codegen/Reference/Reference.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

Value ReferenceKernel::constant(double value) {
  return k.constant(k.builder.getFloatAttr(type(), value));
}
Value ReferenceKernel::add(Value a, Value b) {
  return arith::AddFOp::create(k.builder, k.loc, a, b);
}
Value ReferenceKernel::sub(Value a, Value b) {
  return arith::SubFOp::create(k.builder, k.loc, a, b);
}
Value ReferenceKernel::mul(Value a, Value b) {
  return arith::MulFOp::create(k.builder, k.loc, a, b);
}

Matrix ReferenceKernel::allocate(Index rows, Index width) {
  Matrix matrix{k.advance(scratch, {used}, type()), width};
  used = k.add(used, k.mul(rows, width));
  return matrix;
}

static Value getAddress(ReferenceKernel &r, const Matrix &matrix, Index row,
                        Index column) {
  return r.k.advance(matrix.base, {r.k.mul(row, matrix.width), column},
                     r.type());
}
Value ReferenceKernel::load(const Matrix &matrix, Index row, Index column) {
  return k.load(type(), getAddress(*this, matrix, row, column));
}
void ReferenceKernel::store(const Matrix &matrix, Index row, Index column,
                            Value value) {
  k.store(value, getAddress(*this, matrix, row, column));
}
void ReferenceKernel::addTo(const Matrix &matrix, Index row, Index column,
                            Value value) {
  store(matrix, row, column, add(load(matrix, row, column), value));
}
void ReferenceKernel::clear(const Matrix &matrix, Index rows) {
  k.loop(0, k.mul(rows, matrix.width), 1,
         [&](Value element) { store(matrix, 0, element, constant(0.0)); });
}

Value ReferenceKernel::dot(const Matrix &a, Index rowA, const Matrix &b,
                           Index rowB) {
  return k
      .loop(0, a.width, 1, {constant(0.0)},
            [&](Value column, ValueRange sum) -> KernelBuilder::Values {
              return {add(sum[0],
                          mul(load(a, rowA, column), load(b, rowB, column)))};
            })
      .front();
}

Index codegen::getScratchBytes(KernelBuilder &kernel, FloatType type,
                               Index elements) {
  return kernel.mul(elements, type.getIntOrFloatBitWidth() / 8);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static Value convertFloat(KernelBuilder &k, Value value, Type type) {
  if (value.getType() == type)
    return value;
  if (value.getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(k.builder, k.loc, type, value);
  return arith::TruncFOp::create(k.builder, k.loc, type, value);
}

Value ReferenceKernel::loadElement(unsigned tensor, ArrayRef<Index> indices) {
  Value value = k.load(arguments.getElementType(tensor),
                       arguments.getAddress(tensor, indices));
  return convertFloat(k, value, type());
}

void ReferenceKernel::storeElement(unsigned tensor, ArrayRef<Index> indices,
                                   Value value) {
  k.store(convertFloat(k, value, arguments.getElementType(tensor)),
          arguments.getAddress(tensor, indices));
}

void ReferenceKernel::loadRow(unsigned tensor, ArrayRef<Index> indices,
                              const Matrix &matrix, Index row) {
  SmallVector<Index> at(indices);
  at.push_back(0);
  Index width = arguments.getSize(tensor, indices.size());
  k.loop(0, width, 1, [&](Value column) {
    at.back() = column;
    store(matrix, row, column, loadElement(tensor, at));
  });
}

void ReferenceKernel::storeRow(unsigned tensor, ArrayRef<Index> indices,
                               const Matrix &matrix, Index row) {
  SmallVector<Index> at(indices);
  at.push_back(0);
  Index width = arguments.getSize(tensor, indices.size());
  k.loop(0, width, 1, [&](Value column) {
    at.back() = column;
    storeElement(tensor, at, load(matrix, row, column));
  });
}

//===----------------------------------------------------------------------===//
// Row maps
//===----------------------------------------------------------------------===//

/// Lane of the row that is value `part` of a group (C6).
static Index getLane(KernelBuilder &k, const RowMap &map, Index group,
                     unsigned part) {
  return k.add(k.mul(group, map.getGroupStep()), map.getLane(0, part));
}

static SmallVector<Value> loadGroup(ReferenceKernel &r, const RowMap &map,
                                    const Matrix &matrix, Index row,
                                    Index group) {
  pos::RowsOp op = map.op;
  SmallVector<Value> values;
  for (unsigned part = 0; part < op.getBody().getNumArguments(); ++part)
    values.push_back(r.load(matrix, row, getLane(r.k, map, group, part)));
  return values;
}

static void storeGroup(ReferenceKernel &r, const RowMap &map,
                       const Matrix &matrix, Index row, Index group,
                       ValueRange values) {
  for (auto [part, value] : llvm::enumerate(values))
    r.store(matrix, row, getLane(r.k, map, group, part),
            value ? value : r.constant(0.0));
}

void ReferenceKernel::mapRow(ArrayRef<RowMap> maps, const Matrix &matrix,
                             Index row) {
  for (const RowMap &map : maps)
    k.loop(0, map.getNumGroups(), 1, [&](Value group) {
      point.setLane(group);
      pos::RowsOp op = map.op;
      FailureOr<SmallVector<Value>> mapped =
          emitPayload(k.builder, op.getBody().front(),
                      loadGroup(*this, map, matrix, row, group), point);
      if (failed(mapped))
        point.failed = true;
      else
        storeGroup(*this, map, matrix, row, group, *mapped);
    });
}

void ReferenceKernel::pullRow(ArrayRef<RowMap> maps, const Matrix &gradient,
                              Index row, const Matrix &original,
                              const Matrix &work) {
  for (size_t last = maps.size(); last > 0; --last) {
    const RowMap &map = maps[last - 1];
    k.loop(0, work.width, 1, [&](Value column) {
      store(work, 0, column, load(original, 0, column));
    });
    mapRow(maps.take_front(last - 1), work, 0);
    k.loop(0, map.getNumGroups(), 1, [&](Value group) {
      point.setLane(group);
      pos::RowsOp op = map.op;
      FailureOr<SmallVector<Value>> pulled =
          emitPullback(k.builder, op.getBody().front(),
                       loadGroup(*this, map, work, 0, group),
                       loadGroup(*this, map, gradient, row, group), point);
      if (failed(pulled))
        point.failed = true;
      else
        storeGroup(*this, map, gradient, row, group, *pulled);
    });
  }
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

Index ReferenceKernel::getRowWidth(RowOperand operand, unsigned tensor) {
  Index lanes = arguments.getSize(tensor, 3);
  return operand == RowOperand::value
             ? lanes
             : k.add(lanes, point.getPlan().countColumns());
}

/// Calls `body` for every column of a row with its place in the matrix.
static void
forColumns(ReferenceKernel &r, RowOperand operand, const Matrix &matrix,
           function_ref<void(const RowColumns &columns, Index place)> body) {
  if (operand == RowOperand::value)
    return;
  const KernelPlan &plan = r.point.getPlan();
  Index first = r.k.sub(matrix.width, plan.countColumns());
  for (const RowColumns &columns : plan.columns) {
    r.k.loop(0, columns.count, 1, [&](Value column) {
      r.point.setLane(column);
      body(columns, r.k.add(first, column));
    });
    first = r.k.add(first, columns.count);
  }
}

void ReferenceKernel::appendColumns(RowOperand operand, const Matrix &matrix,
                                    Index row) {
  forColumns(*this, operand, matrix,
             [&](const RowColumns &columns, Index place) {
               Value value = point.hoisted(k.builder, columns.get(operand));
               if (value)
                 store(matrix, row, place, value);
             });
}

void ReferenceKernel::pullColumns(RowOperand operand, const Matrix &gradient,
                                  Index row) {
  forColumns(
      *this, operand, gradient, [&](const RowColumns &columns, Index place) {
        pos::HoistOp hoist = columns.get(operand);
        if (point.wantsGradient(hoist))
          point.addToHoisted(k.builder, hoist, load(gradient, row, place));
      });
}
