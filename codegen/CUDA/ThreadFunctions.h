//===- ThreadFunctions.h - Functions that a warp's threads run --*- C++ -*-===//
//
// A kernel calls one function on a range of its items. For a GPU this is the
// function that each thread of a block runs; the call itself is replaced by how
// blocks are started. Most functions are written for vectors, whose lanes go to
// the threads of one warp (WarpLanes.h). Those of tensor cores are written for
// a thread of a block, and say what the block is.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H
#define SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H

#include "codegen/CUDA/LaneExchange.h"
#include "codegen/Emit/KernelBuilder.h"
#include "llvm/IR/Module.h"
#include <optional>

namespace sextant::codegen {

/// The threads that run an item together, and the memory that they share.
struct BlockShape {
  int64_t warps = 1;
  int64_t sharedBytes = 0;

  int64_t countThreads() const { return warpLanes * warps; }
};

/// The symbol of the shared memory of a block, a global of address space 3.
inline constexpr llvm::StringLiteral sharedMemoryName = "sextant_shared";

/// Calls a kernel's function on a range of items in all threads of a block
/// (VectorTarget::flushingCall): `getThreadFunctions` knows it again.
void emitWarpCall(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function,
                  mlir::ValueRange arguments);

/// Says that a function is written for a thread of such a block.
void setBlockShape(mlir::LLVM::LLVMFuncOp function, const BlockShape &shape);

/// The functions of a module that threads run.
llvm::SmallVector<llvm::Function *> getThreadFunctions(llvm::Module &kernels);

/// The block that a function is written for; none: it is written for vectors.
std::optional<BlockShape> findBlockShape(const llvm::Function &function);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H
