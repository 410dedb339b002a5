//===- VectorArithmetic.cpp - Floating point in place of calls ------------===//

#include "codegen/Emit/VectorArithmetic.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sextant::codegen;

VectorArithmetic::VectorArithmetic(OpBuilder &builder, Location loc,
                                   VectorType type)
    : builder(builder), loc(loc), type(type),
      integerType(VectorType::get(
          type.getShape(),
          builder.getIntegerType(type.getElementTypeBitWidth()))) {}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value VectorArithmetic::constant(double value) {
  auto element = builder.getFloatAttr(type.getElementType(), value);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, element));
}
Value VectorArithmetic::integer(int64_t value) {
  auto element = builder.getIntegerAttr(integerType.getElementType(), value);
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(integerType, element));
}
Value VectorArithmetic::add(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, a, b);
}
Value VectorArithmetic::sub(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, a, b);
}
Value VectorArithmetic::mul(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, a, b);
}
Value VectorArithmetic::div(Value a, Value b) {
  return arith::DivFOp::create(builder, loc, a, b);
}
Value VectorArithmetic::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(builder, loc, a, b, c);
}
Value VectorArithmetic::neg(Value a) {
  return arith::NegFOp::create(builder, loc, a);
}
Value VectorArithmetic::abs(Value a) {
  return math::AbsFOp::create(builder, loc, a);
}
Value VectorArithmetic::copySign(Value magnitude, Value sign) {
  return math::CopySignOp::create(builder, loc, magnitude, sign);
}
Value VectorArithmetic::less(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, a, b);
}
Value VectorArithmetic::equal(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
}
Value VectorArithmetic::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value VectorArithmetic::clamp(Value x, double low, double high) {
  Value lowest = constant(low), highest = constant(high);
  x = select(less(x, lowest), lowest, x);
  return select(less(highest, x), highest, x);
}

Value VectorArithmetic::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = constant(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, constant(coefficient));
  return sum;
}

//===----------------------------------------------------------------------===//
// Whole numbers and powers of two
//===----------------------------------------------------------------------===//

/// Adding 1.5 * 2^(mantissa bits) leaves the whole number in the low bits of
/// the sum; a NaN gives some integer, never an undefined one.
std::pair<Value, Value> VectorArithmetic::nearest(Value x) {
  double magic = isDouble() ? 0x1.8p52 : 0x1.8p23;
  int64_t bits = isDouble() ? 0x4338000000000000 : 0x4b400000;
  Value shifted = add(x, constant(magic));
  Value asBits = arith::BitcastOp::create(builder, loc, integerType, shifted);
  Value number = arith::SubIOp::create(builder, loc, asBits, integer(bits));
  return {sub(shifted, constant(magic)), number};
}

Value VectorArithmetic::powerOfTwo(Value n) {
  int64_t bias = isDouble() ? 1023 : 127, shift = isDouble() ? 52 : 23;
  Value biased = arith::AddIOp::create(builder, loc, n, integer(bias));
  Value bits = arith::ShLIOp::create(builder, loc, biased, integer(shift));
  return arith::BitcastOp::create(builder, loc, type, bits);
}

/// Multiplies x by 2^n in two steps, so that results overflow and become
/// denormal as they should.
Value VectorArithmetic::scale(Value x, Value n) {
  Value half = arith::ShRSIOp::create(builder, loc, n, integer(1));
  Value rest = arith::SubIOp::create(builder, loc, n, half);
  return mul(mul(x, powerOfTwo(half)), powerOfTwo(rest));
}
