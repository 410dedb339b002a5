//===- ThreadFunctions.cpp - Functions that a warp's threads run ----------===//

#include "codegen/CUDA/ThreadFunctions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace sextant::codegen;

/// Marks them, in LLVM IR too.
static constexpr llvm::StringLiteral kOfThreads = "sextant-threads";

void sextant::codegen::emitWarpCall(KernelBuilder &kernel,
                                    mlir::LLVM::LLVMFuncOp function,
                                    mlir::ValueRange arguments) {
  mlir::OpBuilder &builder = kernel.builder;
  function.setNoInline(true);
  function.setDenormalFpMath("preserve-sign,preserve-sign");
  function.setPassthroughAttr(
      builder.getArrayAttr({builder.getStringAttr(kOfThreads)}));
  mlir::LLVM::CallOp::create(builder, kernel.loc, function, arguments);
}

llvm::SmallVector<llvm::Function *>
sextant::codegen::getThreadFunctions(llvm::Module &kernels) {
  llvm::SmallVector<llvm::Function *> found;
  for (llvm::Function &function : kernels)
    if (function.hasFnAttribute(kOfThreads))
      found.push_back(&function);
  return found;
}
