//===- VectorBuilder.cpp - Vectors and floating point of kernels ----------===//

#include "codegen/Emit/VectorBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include <numeric>

using namespace mlir;
using namespace sextant::codegen;

VectorBuilder::VectorBuilder(OpBuilder &builder, Location loc, Block &entry,
                             int64_t width)
    : ScalarBuilder(builder, loc, entry), vf32(VectorType::get(width, f32)),
      vf64(VectorType::get(width, f64)), vi32(VectorType::get(width, i32)),
      vi1(VectorType::get(width, i1)), lanesOfVector(width) {}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value VectorBuilder::splatF32(double value) {
  if (isOfThread)
    return constantF32(value);
  return constant(DenseElementsAttr::get(vf32, static_cast<float>(value)));
}

Value VectorBuilder::splatI32(int32_t value) {
  return constant(DenseElementsAttr::get(vi32, value));
}

Value VectorBuilder::broadcast(Value scalar) {
  if (isOfThread || isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(
      builder, loc, VectorType::get(width(), scalar.getType()), scalar);
}

Value VectorBuilder::lanes(Index base) {
  SmallVector<int32_t> numbers(width());
  std::iota(numbers.begin(), numbers.end(), 0);
  Value steps = constant(DenseElementsAttr::get(vi32, ArrayRef(numbers)));
  if (base.is(0))
    return steps;
  return arith::AddIOp::create(builder, loc, steps, broadcast(toI32(base)));
}

Value VectorBuilder::lanesBelow(Index count) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                               lanes(0), broadcast(toI32(count)));
}

Value VectorBuilder::shuffle(Value a, Value b, ArrayRef<int64_t> mask) {
  return vector::ShuffleOp::create(builder, loc, a, b, mask);
}

VectorBuilder::Values VectorBuilder::transpose(ValueRange rows) {
  // Swaps blocks of growing size: log2(width) steps of width shuffles.
  Values result(rows.begin(), rows.end());
  int64_t n = width();
  for (int64_t block = 1; block < n; block *= 2) {
    SmallVector<int64_t> even(n), odd(n);
    for (int64_t lane = 0; lane < n; ++lane) {
      even[lane] = lane & block ? n + lane - block : lane;
      odd[lane] = lane & block ? n + lane : lane + block;
    }
    for (int64_t row = 0; row < n; ++row) {
      if (row & block)
        continue;
      Value x = result[row], y = result[row | block];
      result[row] = shuffle(x, y, even);
      result[row | block] = shuffle(x, y, odd);
    }
  }
  return result;
}

Value VectorBuilder::sumLanes(Value vector) {
  for (int64_t half = width() / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> mask(width());
    for (int64_t lane = 0; lane < width(); ++lane)
      mask[lane] = (lane + half) % width();
    vector = addF(vector, shuffle(vector, vector, mask));
  }
  return vector::ExtractOp::create(builder, loc, vector, 0);
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

template <typename OpTy>
static Value createContracted(VectorBuilder &k, Value a, Value b) {
  return OpTy::create(k.builder, k.loc, a, b, arith::FastMathFlags::contract);
}

Value VectorBuilder::addF(Value a, Value b) {
  return createContracted<arith::AddFOp>(*this, a, b);
}

Value VectorBuilder::subF(Value a, Value b) {
  return createContracted<arith::SubFOp>(*this, a, b);
}

Value VectorBuilder::mulF(Value a, Value b) {
  return createContracted<arith::MulFOp>(*this, a, b);
}

Value VectorBuilder::divF(Value a, Value b) {
  return createContracted<arith::DivFOp>(*this, a, b);
}

Value VectorBuilder::fma(Value a, Value b, Value c) {
  if (!isa<VectorType>(c.getType()))
    return math::FmaOp::create(builder, loc, a, b, c);
  return vector::FMAOp::create(builder, loc, a, b, c);
}

Value VectorBuilder::compareF(arith::CmpFPredicate predicate, Value a,
                              Value b) {
  return arith::CmpFOp::create(builder, loc, predicate, a, b);
}

Value VectorBuilder::selectF(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Type VectorBuilder::withElement(Value value, Type element) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type ? Type(VectorType::get(type.getShape(), element)) : element;
}

Value VectorBuilder::widen(Value value) {
  return arith::ExtFOp::create(builder, loc, withElement(value, f64), value);
}

Value VectorBuilder::narrow(Value value) {
  return arith::TruncFOp::create(builder, loc, withElement(value, f32), value);
}

/// Never contracted: the order of a sum is what it is defined by.
Value VectorBuilder::addF64(Value a, Value b) {
  bool isWide = getElementTypeOrSelf(b.getType()).isF64();
  return arith::AddFOp::create(builder, loc, a, isWide ? b : widen(b));
}

Value VectorBuilder::maxF(Value a, Value b) {
  return selectF(compareF(arith::CmpFPredicate::OGT, a, b), a, b);
}
