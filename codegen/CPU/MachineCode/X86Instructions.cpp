//===- X86Instructions.cpp - Vector instructions of x86 -------------------===//

#include "codegen/CPU/MachineCode/X86Instructions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant::codegen;

/// Round to nearest, no traps, results and operands below 2^-126 are 0.
static constexpr int32_t flushingMode = 0x9fc0;

static Value callIntrinsic(KernelBuilder &kernel, StringRef name, Type result,
                           ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(kernel.builder, kernel.loc, result,
                                       kernel.builder.getStringAttr(name),
                                       operands)
      .getResult(0);
}

Value x86::emitScalef(KernelBuilder &kernel, Value x, Value power) {
  Value allLanes = kernel.constant(kernel.builder.getI16IntegerAttr(-1));
  Value currentRounding = kernel.constantI32(4);
  return callIntrinsic(kernel, "llvm.x86.avx512.mask.scalef.ps.512",
                       kernel.vf32, {x, power, x, allLanes, currentRounding});
}

Value x86::emitBf16Dot(KernelBuilder &kernel, Value sum, Value a, Value b) {
  return callIntrinsic(kernel, "llvm.x86.avx512bf16.dpbf16ps.512", kernel.vf32,
                       {sum, a, b});
}

void x86::emitFlushingCall(KernelBuilder &kernel, LLVM::LLVMFuncOp function,
                           ValueRange arguments) {
  function.setNoInline(true);
  function.setDenormalFpMath("preserve-sign,preserve-sign");
  OpBuilder &builder = kernel.builder;
  auto allocate = [&]() -> Value {
    return LLVM::AllocaOp::create(builder, kernel.loc, kernel.pointer,
                                  kernel.i32, kernel.constantI32(1));
  };
  auto access = [&](StringRef intrinsic, Value address) {
    LLVM::CallIntrinsicOp::create(builder, kernel.loc,
                                  builder.getStringAttr(intrinsic), address);
  };
  Value before = allocate(), during = allocate();
  access("llvm.x86.sse.stmxcsr", before);
  kernel.store(kernel.constantI32(flushingMode), during);
  access("llvm.x86.sse.ldmxcsr", during);
  LLVM::CallOp::create(builder, kernel.loc, function, arguments);
  access("llvm.x86.sse.ldmxcsr", before);
}
