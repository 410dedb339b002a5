//===- EmulatedWarps.h - Kernels for warps, made for the emulator -*- C++
//-*-===//

#ifndef SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H
#define SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H

#include "codegen/Emit/KernelBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace sextant::codegen {

/// Calls a kernel's function on a range of items in all threads of a warp: a
/// call that `emulateWarps` knows again (VectorTarget::flushingCall).
void emitWarpCall(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function,
                  mlir::ValueRange arguments);

/// Gives the lanes of these functions to threads, and calls of the emulator for
/// what threads do together (runtime/emulator/WarpCalls.h).
llvm::Error emulateWarps(llvm::Module &kernels);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H
