//===- ThreadArithmetic.cpp - Numbers and loops of a thread ---------------===//

#include "codegen/CUDA/Sm80/ThreadArithmetic.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = ThreadArithmetic::Values;

//===----------------------------------------------------------------------===//
// Integers of 32 bits
//===----------------------------------------------------------------------===//

Value ThreadArithmetic::constant(int64_t value) {
  return kernel.constantI32(static_cast<int32_t>(value));
}
Value ThreadArithmetic::add(Value a, Value b) {
  return arith::AddIOp::create(builder, loc, a, b);
}
Value ThreadArithmetic::add(Value a, int64_t b) {
  return b == 0 ? a : add(a, constant(b));
}
Value ThreadArithmetic::sub(Value a, Value b) {
  return arith::SubIOp::create(builder, loc, a, b);
}
Value ThreadArithmetic::mul(Value a, int64_t b) {
  return arith::MulIOp::create(builder, loc, a, constant(b));
}
Value ThreadArithmetic::div(Value a, int64_t b) {
  if (!llvm::isPowerOf2_64(b))
    return arith::DivUIOp::create(builder, loc, a, constant(b));
  return arith::ShRUIOp::create(builder, loc, a, constant(llvm::Log2_64(b)));
}
Value ThreadArithmetic::rem(Value a, int64_t b) {
  if (!llvm::isPowerOf2_64(b))
    return arith::RemUIOp::create(builder, loc, a, constant(b));
  return arith::AndIOp::create(builder, loc, a, constant(b - 1));
}
Value ThreadArithmetic::min(Value a, Value b) {
  return arith::MinSIOp::create(builder, loc, a, b);
}
Value ThreadArithmetic::max(Value a, Value b) {
  return arith::MaxSIOp::create(builder, loc, a, b);
}
Value ThreadArithmetic::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
}
Value ThreadArithmetic::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value ThreadArithmetic::countBits(Value bits) {
  return LLVM::CtPopOp::create(builder, loc, bits);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Values ThreadArithmetic::loopWhile(ValueRange initial,
                                   function_ref<Value(ValueRange)> condition,
                                   function_ref<Values(ValueRange)> body) {
  auto loop = scf::WhileOp::create(
      builder, loc, initial.getTypes(), initial,
      [&](OpBuilder &, Location, ValueRange carried) {
        Value goesOn = condition(carried);
        scf::ConditionOp::create(builder, loc, goesOn, carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::YieldOp::create(builder, loc, body(carried));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value ThreadArithmetic::maxNumber(Value a, Value b) {
  return arith::MaxNumFOp::create(builder, loc, a, b);
}

Value ThreadArithmetic::minNumber(Value a, Value b) {
  return arith::MinNumFOp::create(builder, loc, a, b);
}

Value ThreadArithmetic::most(Value a, Value b) {
  return arith::MaximumFOp::create(builder, loc, a, b);
}

Value ThreadArithmetic::least(Value a, Value b) {
  return arith::MinimumFOp::create(builder, loc, a, b);
}

Value ThreadArithmetic::saturatedFma(Value a, Value b, Value c) {
  return LLVM::CallIntrinsicOp::create(
             builder, loc, kernel.f32,
             builder.getStringAttr("llvm.nvvm.fma.rn.ftz.sat.f"),
             ValueRange{a, b, c})
      .getResult(0);
}
