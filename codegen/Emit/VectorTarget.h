//===- VectorTarget.h - The vectors that kernels are written in -*- C++ -*-===//
//
// All that the writers of kernels know of a target. A vector may be a register
// of a CPU or a warp of a GPU: nothing here or above depends on which.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_VECTORTARGET_H
#define SEXTANT_CODEGEN_EMIT_VECTORTARGET_H

#include "mlir/IR/Value.h"
#include "mlir/IR/ValueRange.h"
#include <algorithm>

namespace mlir::LLVM {
class LLVMFuncOp;
} // namespace mlir::LLVM

namespace sextant::codegen {

class KernelBuilder;

/// Memory that is faster than any other and is of one work item alone, where a
/// target has such: the writers of main kernels keep there what they read and
/// write most.
struct NearMemory {
  int64_t bytes = 0;      ///< that an item may have
  int64_t blockBytes = 0; ///< that several warps which work together may have
  /// Its address, at the start of a function of a kernel.
  mlir::Value (*getAddress)(KernelBuilder &) = nullptr;
  /// Says how much of it a function of a kernel uses.
  void (*setBytes)(mlir::LLVM::LLVMFuncOp function, int64_t bytes) = nullptr;
};

/// Registers that hold tiles of a matrix, and instructions that multiply them:
/// what the processor has beside its vectors. A tile has `side` rows of as many
/// 32-bit words, each a number of f32 or a pair of bf16.
struct MatrixUnit {
  static constexpr int64_t side = 16;
  static constexpr int64_t registers = 8;
  /// Products of bf16 that one of f32 is made of (Tiles/Terms.h).
  static constexpr int64_t productsOfF32 = 6;

  /// Tiles are numbered; rows in memory are `stride` words apart.
  void (*clear)(KernelBuilder &, int64_t tile) = nullptr;
  void (*load)(KernelBuilder &, int64_t tile, mlir::Value address,
               mlir::Value stride) = nullptr;
  void (*store)(KernelBuilder &, int64_t tile, mlir::Value address,
                mlir::Value stride) = nullptr;
  /// sum[m][n] += the sum over k of the dots of a[m][k] and b[k][n]. Numbers of
  /// even places and of odd ones are added up apart, from zero, then both to
  /// the sum, so it makes no difference which of two operands is `a`.
  void (*multiply)(KernelBuilder &, int64_t sum, int64_t a,
                   int64_t b) = nullptr;
};

/// How far the main launch of a backward is cut, where its shape allows. What
/// it asks for follows from the kind of machine and not from its size, so
/// results are the same on any of that kind (CPU/BackwardCuts.h).
struct Granularity {
  int64_t items = 32; ///< that the launch should have
  /// Copies of dQ, at most: query heads times chunks of keys.
  int64_t copies = 64;
  /// Whether items are cut along the queries, too: then dK and dV are sums of
  /// parts, and it is bytes of all copies that are bounded.
  bool cutsQueries = false;
};

/// What a kernel may assume of the vector unit.
struct VectorTarget {
  int64_t width = 8;      ///< f32 lanes of a vector
  int64_t registers = 16; ///< vector registers
  int64_t alignment = 4;  ///< of vectors in memory, bytes
  /// Whether code is written for one thread of a GPU, of which vectors of one
  /// lane are scalars.
  bool isThread = false;
  /// Whether an f64 takes the place of two f32, as in a register.
  bool doublesAreWide = true;
  /// Whether an instruction takes its assembler so long that what is done
  /// several times, one after the other, is better a loop.
  bool wantsShortCode = false;
  /// Whether each lane has an address of its own, so that a gather is a load
  /// like any other: to ask first whether all lanes have the same address, or
  /// neighbouring ones, costs more than it saves.
  bool lanesHaveAddresses = false;
  /// How many loads of vectors stand before the first use of one, where what
  /// waits for memory is the program: no cache foresees what is read next, and
  /// no instruction runs before the one ahead of it. 1: the processor sees to
  /// it.
  int64_t loadsAtOnce = 1;

  /// Whether an instruction rounds f32 to bf16.
  bool roundsToBf16 = false;

  // Instructions that no op of MLIR stands for; null where there is none.

  /// x * 2^floor(power); a target with it has x - floor(x), too.
  mlir::Value (*scalef)(KernelBuilder &, mlir::Value x,
                        mlir::Value power) = nullptr;
  mlir::Value (*fraction)(KernelBuilder &, mlir::Value x) = nullptr;
  /// Of each lane, entry `number` mod 8 of a table of eight 32-bit words, which
  /// has a lane for each.
  mlir::Value (*lookUp)(KernelBuilder &, mlir::Value table,
                        mlir::Value number) = nullptr;
  /// sum (f32) + a * b, a pair of bf16 in each lane of `a` and `b`.
  mlir::Value (*bf16Dot)(KernelBuilder &, mlir::Value sum, mlir::Value a,
                         mlir::Value b) = nullptr;
  /// Calls `function` with arithmetic in which operands and results below
  /// 2^-126 are 0, and restores the caller's. Null: kernels compute as their
  /// caller.
  void (*flushingCall)(KernelBuilder &, mlir::LLVM::LLVMFuncOp function,
                       mlir::ValueRange arguments) = nullptr;

  /// Gives the processor to other threads for a while. Null: threads of a
  /// kernel do not wait for each other so.
  void (*letOthersRun)(KernelBuilder &) = nullptr;

  /// What multiplies rows of bf16 tile by tile, and those of f32 by their
  /// terms; a target with it has dots of bf16, too. Null: there is none.
  const MatrixUnit *matrixUnit = nullptr;

  NearMemory near;
  Granularity granularity;

  /// f64 lanes of a vector.
  int64_t countDoubleLanes() const {
    return doublesAreWide ? std::max<int64_t>(width / 2, 1) : width;
  }

  /// Elements that an item takes, vector after vector: `most`, or one vector,
  /// where each waits for memory anew and other items are what runs meanwhile.
  int64_t countPerItem(int64_t most) const {
    return loadsAtOnce > 1 ? width : most;
  }

  /// Whether register tiles may be as large as 32 registers allow.
  bool hasManyRegisters() const { return registers >= 32; }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_VECTORTARGET_H
