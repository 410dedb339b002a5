//===- FloatMode.cpp - The floating-point mode of kernels -----------------===//

#include "codegen/FloatMode.h"

using namespace mlir;
using namespace sextant::codegen;

/// Round to nearest, no traps, results and operands below 2^-126 are 0.
static constexpr uint32_t flushingMode = 0x9fc0;

static constexpr StringLiteral attributeName = "exec.float_mode";

void sextant::codegen::setFloatMode(ModuleOp kernels, const Target &target) {
  if (target.kind == TargetKind::CPU)
    kernels->setAttr(attributeName,
                     Builder(kernels).getI32IntegerAttr(flushingMode));
}

std::optional<uint32_t> sextant::codegen::getFloatMode(ModuleOp kernels) {
  auto mode = kernels->getAttrOfType<IntegerAttr>(attributeName);
  if (!mode)
    return std::nullopt;
  return mode.getInt();
}

void sextant::codegen::emitCallInMode(KernelBuilder &kernel, uint32_t mode,
                                      LLVM::LLVMFuncOp function,
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
  kernel.store(kernel.constantI32(mode), during);
  access("llvm.x86.sse.ldmxcsr", during);
  LLVM::CallOp::create(builder, kernel.loc, function, arguments);
  access("llvm.x86.sse.ldmxcsr", before);
}
