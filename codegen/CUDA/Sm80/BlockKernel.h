//===- BlockKernel.h - Kernels whose items blocks run -----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BLOCKKERNEL_H
#define SEXTANT_CODEGEN_CUDA_SM80_BLOCKKERNEL_H

#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Emit/KernelFunction.h"

namespace sextant::codegen {

/// What `createKernel` asks for, of blocks: the number of items, and what a
/// thread does for some of them.
struct BlockBody {
  llvm::function_ref<ItemSpace(KernelBuilder &, ArgumentBlock &)> items;
  llvm::function_ref<void(ThreadBuilder &, ArgumentBlock &, const Items &)> run;
  int64_t scores = 0; ///< that a thread holds in a pass of its main loop
};

/// Adds the functions of a kernel whose items blocks of such a shape run, each
/// one at a time.
void createBlockKernel(const Lowering &lowering, llvm::StringRef suffix,
                       const KernelOperands &operands, const BlockShape &block,
                       const BlockBody &body);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BLOCKKERNEL_H
