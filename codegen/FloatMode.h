//===- FloatMode.h - The floating-point mode of kernels ---------*- C++ -*-===//
//
// On some processors arithmetic with a denormal costs a hundred times that with
// a zero, and the probabilities of far keys pass through that range. Kernels of
// the CPU know no number below 2^-126: they run in a mode in which operands and
// results below it are 0. The reference runs in the mode of its caller.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_FLOATMODE_H
#define SEXTANT_CODEGEN_FLOATMODE_H

#include "codegen/KernelBuilder.h"
#include "codegen/Target.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::codegen {

/// Notes on the module of kernels in which mode they run on `target`, as the
/// attribute `exec.float_mode` (i32): a value of the control register MXCSR.
/// None: kernels run in the mode of their caller.
void setFloatMode(mlir::ModuleOp kernels, const Target &target);
std::optional<uint32_t> getFloatMode(mlir::ModuleOp kernels);

/// Calls `function` in a mode and restores that of the caller. The function is
/// not inlined, so that no arithmetic moves across the change of the mode, of
/// which LLVM knows nothing.
void emitCallInMode(KernelBuilder &kernel, uint32_t mode,
                    mlir::LLVM::LLVMFuncOp function,
                    mlir::ValueRange arguments);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_FLOATMODE_H
