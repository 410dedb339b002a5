//===- ScalarBuilder.cpp - Constants and integers of kernels --------------===//

#include "codegen/Emit/ScalarBuilder.h"

using namespace mlir;
using namespace sextant::codegen;

ScalarBuilder::ScalarBuilder(OpBuilder &builder, Location loc, Block &entry)
    : builder(builder), loc(loc), entry(entry) {
  i1 = builder.getI1Type();
  i16 = builder.getIntegerType(16);
  i32 = builder.getI32Type();
  i64 = builder.getI64Type();
  f32 = builder.getF32Type();
  f64 = builder.getF64Type();
  bf16 = builder.getBF16Type();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value ScalarBuilder::constant(TypedAttr attribute) {
  Value &value = constants[attribute];
  if (!value) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&entry);
    value = arith::ConstantOp::create(builder, loc, attribute);
  }
  return value;
}

Value ScalarBuilder::constantI1(bool value) {
  return constant(builder.getBoolAttr(value));
}

Value ScalarBuilder::constantI64(int64_t value) {
  return constant(builder.getI64IntegerAttr(value));
}

Value ScalarBuilder::constantI32(int32_t value) {
  return constant(builder.getI32IntegerAttr(value));
}

Value ScalarBuilder::constantF32(double value) {
  return constant(builder.getF32FloatAttr(static_cast<float>(value)));
}

Value ScalarBuilder::zero(Type type) {
  return constant(cast<TypedAttr>(builder.getZeroAttr(type)));
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value ScalarBuilder::value(Index index) {
  return index.isConstant() ? constantI64(index.getConstant())
                            : index.getValue();
}

static constexpr auto noSignedWrap = arith::IntegerOverflowFlags::nsw;

Index ScalarBuilder::add(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() + b.getConstant();
  if (a.is(0))
    return b;
  if (b.is(0))
    return a;
  return arith::AddIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index ScalarBuilder::sub(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() - b.getConstant();
  if (b.is(0))
    return a;
  return arith::SubIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index ScalarBuilder::mul(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() * b.getConstant();
  if (a.is(0) || b.is(0))
    return 0;
  if (a.is(1))
    return b;
  if (b.is(1))
    return a;
  return arith::MulIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index ScalarBuilder::div(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() / b.getConstant();
  if (b.is(1))
    return a;
  return arith::DivUIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index ScalarBuilder::rem(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() % b.getConstant();
  if (b.is(1))
    return 0;
  return arith::RemUIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index ScalarBuilder::min(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return std::min(a.getConstant(), b.getConstant());
  return arith::MinSIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index ScalarBuilder::max(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return std::max(a.getConstant(), b.getConstant());
  return arith::MaxSIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index ScalarBuilder::select(Value condition, Index a, Index b) {
  if (a.isConstant() && b.is(a.getConstant()))
    return a;
  return arith::SelectOp::create(builder, loc, condition, value(a), value(b))
      .getResult();
}

Value ScalarBuilder::compare(arith::CmpIPredicate predicate, Index a, Index b) {
  return arith::CmpIOp::create(builder, loc, predicate, value(a), value(b));
}

Value ScalarBuilder::less(Index a, Index b) {
  return compare(arith::CmpIPredicate::slt, a, b);
}

Value ScalarBuilder::equal(Index a, Index b) {
  return compare(arith::CmpIPredicate::eq, a, b);
}

Value ScalarBuilder::differ(Index a, Index b) {
  return compare(arith::CmpIPredicate::ne, a, b);
}

Value ScalarBuilder::toI32(Index index) {
  if (index.isConstant())
    return constantI32(static_cast<int32_t>(index.getConstant()));
  return arith::TruncIOp::create(builder, loc, i32, index.getValue());
}

Index ScalarBuilder::fromI32(Value value) {
  return arith::ExtSIOp::create(builder, loc, i64, value).getResult();
}

Index sextant::codegen::asShort(ScalarBuilder &builder, Index index) {
  if (index.isConstant())
    return index;
  return arith::ExtUIOp::create(builder.builder, builder.loc, builder.i64,
                                builder.toI32(index))
      .getResult();
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

Value ScalarBuilder::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

Value ScalarBuilder::either(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::OrIOp::create(builder, loc, a, b);
}
