//===- ReferenceBuilder.cpp - What the reference writes with --------------===//

#include "codegen/Reference/ReferenceBuilder.h"
#include "codegen/Reference/ReferencePoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ReferenceBuilder::ReferenceBuilder(KernelBuilder &kernel,
                                   ArgumentBlock &arguments,
                                   ReferencePoint &point, Value scratch)
    : k(kernel), arguments(arguments), point(point),
      type(point.getComputeType()), scratch(scratch) {}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value ReferenceBuilder::constant(double value) {
  return k.constant(k.builder.getFloatAttr(type, value));
}
Value ReferenceBuilder::add(Value a, Value b) {
  return arith::AddFOp::create(k.builder, k.loc, a, b);
}
Value ReferenceBuilder::sub(Value a, Value b) {
  return arith::SubFOp::create(k.builder, k.loc, a, b);
}
Value ReferenceBuilder::mul(Value a, Value b) {
  return arith::MulFOp::create(k.builder, k.loc, a, b);
}

Value ReferenceBuilder::fold(Index count, Value initial,
                             function_ref<Value(Value, Value)> next) {
  auto step = [&](Value number, ValueRange sofar) -> KernelBuilder::Values {
    return {next(number, sofar.front())};
  };
  return k.loop(0, count, 1, initial, step).front();
}

Value ReferenceBuilder::sum(Index count, function_ref<Value(Value)> term) {
  return fold(count, constant(0.0), [&](Value number, Value sofar) {
    return add(sofar, term(number));
  });
}

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

Matrix ReferenceBuilder::allocate(Index rows, Index width) {
  Matrix matrix{k.advance(scratch, {used}, type), width};
  used = k.add(used, k.mul(rows, width));
  return matrix;
}

Value ReferenceBuilder::getAddress(const Matrix &matrix, Index row,
                                   Index column) {
  return k.advance(matrix.base, {k.mul(row, matrix.width), column}, type);
}
Value ReferenceBuilder::load(const Matrix &matrix, Index row, Index column) {
  return k.load(type, getAddress(matrix, row, column));
}
void ReferenceBuilder::store(const Matrix &matrix, Index row, Index column,
                             Value value) {
  k.store(value, getAddress(matrix, row, column));
}
void ReferenceBuilder::addTo(const Matrix &matrix, Index row, Index column,
                             Value value) {
  store(matrix, row, column, add(load(matrix, row, column), value));
}
void ReferenceBuilder::clear(const Matrix &matrix, Index rows) {
  k.loop(0, k.mul(rows, matrix.width), 1,
         [&](Value element) { store(matrix, 0, element, constant(0.0)); });
}

Value ReferenceBuilder::dot(const Matrix &a, Index rowA, const Matrix &b,
                            Index rowB) {
  return sum(a.width, [&](Value column) {
    return mul(load(a, rowA, column), load(b, rowB, column));
  });
}

void ReferenceBuilder::addRow(const Matrix &target, Index row, Value factor,
                              const Matrix &source, Index from) {
  k.loop(0, target.width, 1, [&](Value column) {
    addTo(target, row, column, mul(factor, load(source, from, column)));
  });
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

Value ReferenceBuilder::loadElement(unsigned tensor, ArrayRef<Index> indices) {
  Value value = k.load(arguments.getElementType(tensor),
                       arguments.getAddress(tensor, indices));
  return convertFloat(k, value, type);
}

void ReferenceBuilder::storeElement(unsigned tensor, ArrayRef<Index> indices,
                                    Value value) {
  k.store(convertFloat(k, value, arguments.getElementType(tensor)),
          arguments.getAddress(tensor, indices));
}

void ReferenceBuilder::loadRow(unsigned tensor, ArrayRef<Index> indices,
                               const Matrix &matrix, Index row) {
  SmallVector<Index> at(indices);
  at.push_back(0);
  Index width = arguments.getSize(tensor, indices.size());
  k.loop(0, width, 1, [&](Value column) {
    at.back() = column;
    store(matrix, row, column, loadElement(tensor, at));
  });
}

void ReferenceBuilder::storeRow(unsigned tensor, ArrayRef<Index> indices,
                                const Matrix &matrix, Index row) {
  SmallVector<Index> at(indices);
  at.push_back(0);
  Index width = arguments.getSize(tensor, indices.size());
  k.loop(0, width, 1, [&](Value column) {
    at.back() = column;
    storeElement(tensor, at, load(matrix, row, column));
  });
}
