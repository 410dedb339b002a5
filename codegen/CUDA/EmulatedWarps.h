//===- EmulatedWarps.h - Kernels for the emulator of warps ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H
#define SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace sextant::codegen {

/// Gives the lanes of functions of threads to threads, and calls of the
/// emulator for what threads do together (runtime/emulator/WarpCalls.h). In
/// between `change` sees each function of a thread: tests seed faults there.
llvm::Error emulateWarps(
    llvm::Module &kernels, llvm::function_ref<void(llvm::Function &)> change =
                               [](llvm::Function &) {});

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_EMULATEDWARPS_H
