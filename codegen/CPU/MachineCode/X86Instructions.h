//===- X86Instructions.h - Vector instructions of x86 -----------*- C++ -*-===//
//
// What no op of MLIR stands for and a vector unit of x86 has, in the form in
// which targets give it to the builder of kernels
// (codegen/Emit/VectorTarget.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_MACHINECODE_X86INSTRUCTIONS_H
#define SEXTANT_CODEGEN_CPU_MACHINECODE_X86INSTRUCTIONS_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen::x86 {

/// VSCALEFPS of AVX-512: x * 2^floor(power), 16 lanes.
mlir::Value emitScalef(KernelBuilder &kernel, mlir::Value x, mlir::Value power);

/// VREDUCEPS of AVX-512DQ: x - floor(x), 16 lanes; 0 of an infinity.
mlir::Value emitFraction(KernelBuilder &kernel, mlir::Value x);

/// VPERMD of AVX2: of each of 8 lanes, lane `number` mod 8 of `table`.
mlir::Value emitLookUp(KernelBuilder &kernel, mlir::Value table,
                       mlir::Value number);

/// VDPBF16PS of AVX512_BF16: sum + a.low * b.low + a.high * b.high in each of
/// 16 lanes; `a` and `b` are vectors of 32 bf16.
mlir::Value emitBf16Dot(KernelBuilder &kernel, mlir::Value sum, mlir::Value a,
                        mlir::Value b);

/// Calls `function` in a mode of the control register MXCSR in which arithmetic
/// rounds to nearest, traps nothing and knows no number below 2^-126, and
/// restores that of the caller: on some processors arithmetic with a denormal
/// costs a hundred times that with a zero, and the probabilities of far keys
/// pass through that range. The function is not inlined, so that no arithmetic
/// moves across the change of the mode, of which LLVM knows nothing.
void emitFlushingCall(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function,
                      mlir::ValueRange arguments);

/// Linux's sched_yield: a thread that waits for another one may stand in its
/// way, where there are fewer processors than threads.
void emitYield(KernelBuilder &kernel);

/// The tiles of AMX (AMX-TILE and AMX-BF16), all of 16 rows of 64 bytes.
const MatrixUnit &getTiles();

/// The same call, of a function that may use tiles: their shape is set before
/// it, and they are given back behind it, so that the processor keeps nothing
/// of them for what runs next.
void emitFlushingCallWithTiles(KernelBuilder &kernel,
                               mlir::LLVM::LLVMFuncOp function,
                               mlir::ValueRange arguments);

} // namespace sextant::codegen::x86

#endif // SEXTANT_CODEGEN_CPU_MACHINECODE_X86INSTRUCTIONS_H
