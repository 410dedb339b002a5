//===- ThreadFunctions.h - Functions that a warp's threads run --*- C++ -*-===//
//
// A kernel calls one function on a range of its items. For a GPU this is the
// function that each thread of a warp runs; the call itself is replaced by how
// warps are started.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H
#define SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H

#include "codegen/Emit/KernelBuilder.h"
#include "llvm/IR/Module.h"

namespace sextant::codegen {

/// Calls a kernel's function on a range of items in all threads of a warp
/// (VectorTarget::flushingCall): `getThreadFunctions` knows it again.
void emitWarpCall(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function,
                  mlir::ValueRange arguments);

/// The functions of a module that threads run.
llvm::SmallVector<llvm::Function *> getThreadFunctions(llvm::Module &kernels);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H
