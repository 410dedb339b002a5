//===- ThreadBuilder.h - What a thread of a block can do --------*- C++ -*-===//
//
// Kernels for tensor cores are written for one thread of a block: integers of
// 32 bits, addresses in shared memory, and instructions of a GPU, each of which
// is one call of an intrinsic. A GPU has an instruction for it, the emulator a
// function (codegen/CUDA/EmulatedWarps.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_THREADBUILDER_H
#define SEXTANT_CODEGEN_CUDA_SM80_THREADBUILDER_H

#include "codegen/CUDA/Sm80/ThreadArithmetic.h"
#include "codegen/CUDA/ThreadFunctions.h"

namespace sextant::codegen {

/// Writes code of one thread.
class ThreadBuilder : public ThreadArithmetic {
public:
  /// At the start of the function of a kernel for blocks of such a shape, which
  /// multiplies elements of a type, f16 or bf16.
  ThreadBuilder(KernelBuilder &kernel, mlir::ModuleOp kernels,
                const BlockShape &shape, mlir::FloatType element);

  /// Of the operands of products, and of rows in memory.
  const mlir::FloatType element;

  /// Of the thread in its block, of the thread in its warp, and of its warp.
  /// Where a block has parts, all that is said of the block is said of a part.
  mlir::Value thread, lane, warp;
  /// Of the part that the thread is of.
  mlir::Value part;

  //===--- Shared memory -------------------------------------------------===//

  /// The address so many bytes behind the start, or behind an address.
  /// `further` (i32, null: 0): of a part so many further.
  mlir::Value getShared(mlir::Value bytes, mlir::Value further = {});
  mlir::Value advance(mlir::Value address, int64_t bytes);
  mlir::Value advance(mlir::Value address, mlir::Value bytes);
  mlir::Value loadShared(mlir::Type type, mlir::Value address);
  void storeShared(mlir::Value value, mlir::Value address);

  /// Two neighbours of f32 in shared or in other memory, at an address that is
  /// a multiple of their size.
  std::pair<mlir::Value, mlir::Value> loadPair(mlir::Value address);
  void storePair(mlir::Value low, mlir::Value high, mlir::Value address);
  /// Adds to an f32 in memory that is not shared, to which others add, too.
  void addAtomically(mlir::Value value, mlir::Value address);

  /// Begins a copy of 16, 8 or 4 bytes of a tensor to shared memory, of which
  /// the first `given` (i32) are taken from `from` and the others are zeros.
  void copy(mlir::Value to, mlir::Value from, int64_t bytes, mlir::Value given);
  /// What has been begun since the last time is a group.
  void commitCopies();
  /// The thread's copies are there, but those of the latest `groups` groups.
  void waitForCopies(int64_t groups);

  //===--- Together ------------------------------------------------------===//

  /// What threads of the block, or of all parts, stored before all others load
  /// behind it.
  void synchronizeBlock(bool ofAllParts = false);
  /// What threads of the warp stored before all others load behind it.
  void synchronizeWarp();
  /// The value of the lane whose number differs in the bits of `mask`.
  mlir::Value shuffleXor(mlir::Value value, int64_t mask);
  /// Bit t: the condition (i1) of lane t.
  mlir::Value ballot(mlir::Value condition);
  /// Four words of matrices of 8 x 8 elements in shared memory; each lane
  /// names a row (runtime/emulator/TensorCores.h has the layout).
  Values loadMatrices(mlir::Value row, bool isTransposed);
  /// Elements of A (4 words, 16 x 16) times B (2 words, 16 x 8) plus `sums`
  /// (4 x f32, 16 x 8) of a warp.
  Values multiply(mlir::ValueRange a, mlir::ValueRange b,
                  mlir::ValueRange sums);

  //===--- Numbers -------------------------------------------------------===//

  /// 2^x, off by up to 2^-22 of itself; exact at 0, and 0 for -inf.
  mlir::Value exp2(mlir::Value x);
  /// tanh x, off by up to 2^-11 of itself.
  mlir::Value tanh(mlir::Value x);
  /// 1 / x, off by up to 2^-23 of itself; what would be a denormal is 0.
  mlir::Value reciprocal(mlir::Value x);
  /// Two numbers as a word of elements, the first one in its low half.
  mlir::Value toElements(mlir::Value low, mlir::Value high);

private:
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result,
                   mlir::ValueRange arguments);
  void call(llvm::StringRef intrinsic, mlir::ValueRange arguments);
  mlir::Value toGlobal(mlir::Value address);
  Values callForWords(llvm::StringRef intrinsic, mlir::Type word,
                      mlir::ValueRange arguments);

  mlir::Type sharedPointer;
  mlir::Value shared;         ///< the start
  int64_t parts, bytesOfPart; ///< of the block
};

/// Stores a number, rounded to an element, in shared memory.
void storeElement(ThreadBuilder &thread, mlir::Value number,
                  mlir::Value address);

/// The thread's numbers in its block, in its warp and of its warp come from a
/// register from here on: the assembler cannot read anew what a shuffle gave.
void keepNumber(ThreadBuilder &thread);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_THREADBUILDER_H
