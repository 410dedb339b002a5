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
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include <algorithm>
#include <optional>

namespace sextant::codegen {

/// The threads that run an item together, and the memory that they share.
struct BlockShape {
  int64_t warps = 1;
  int64_t sharedBytes = 0;
  /// How many blocks registers should leave room for on a multiprocessor; 0: as
  /// many as there are if a thread takes as many registers as it can.
  int64_t residentBlocks = 0;
  /// Of warps that run alike, each with as much of the shared memory of its
  /// own: to code that is written for a block such a part is the block.
  int64_t parts = 1;

  int64_t countThreads() const { return warpLanes * warps; }
  /// A multiprocessor has 2^16 registers, a thread 2^8 at most.
  int64_t countResidentBlocks() const {
    return residentBlocks ? residentBlocks
                          : std::max<int64_t>(256 / countThreads(), 1);
  }
  /// How many of them the shared memory of a multiprocessor holds, of which a
  /// block may have `mostBytes`: it takes a KiB for each besides.
  int64_t countBlocksOfMemory(int64_t mostBytes) const {
    constexpr int64_t ofBlock = 1 << 10;
    return (mostBytes + ofBlock) / (sharedBytes + ofBlock);
  }
  /// Whether it holds as many as registers leave room for.
  bool findRoom(int64_t mostBytes) const {
    return countResidentBlocks() <= countBlocksOfMemory(mostBytes);
  }
};

/// The symbol of the shared memory of a block, a global of its address space.
inline constexpr llvm::StringLiteral sharedMemoryName = "sextant_shared";
inline constexpr unsigned sharedMemorySpace = 3;

/// The instruction that transposes a matrix which a warp holds, for which LLVM
/// has no intrinsic: code of assembly that takes a word of each lane and gives
/// one. Calls of it are convergent.
inline constexpr llvm::StringLiteral turnMatrixCode =
    "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;";

/// The address of the shared memory of a block, whose size is given when a
/// kernel is launched; declares it where the module has no declaration.
mlir::Value getSharedMemory(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::ModuleOp kernels);

/// Shared memory as what is near to the item of a warp (VectorTarget::near).
///
/// A block is one warp, and has at most the 48 KiB that every launch may have
/// without asking for more. A multiprocessor of sm_80 has 164 KiB for blocks
/// and takes one more for each, so that three such warps are there, and four on
/// sm_90, which has 228. With half of it, six warps would keep register tiles
/// of half the size: these load 5 words for 4 multiply-adds and not 6 for 8,
/// and memory that gives a word for each lane in a clock is what they wait for.
///
/// `blockBytes`: what a block of more warps may have.
NearMemory getNearMemoryOfWarps(int64_t blockBytes);

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

/// The block in which threads run a function, of one warp if it is written for
/// vectors.
BlockShape getBlockShape(const llvm::Function &function);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_THREADFUNCTIONS_H
