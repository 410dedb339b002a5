//===- LLVMModule.h - The module of kernels as LLVM IR ----------*- C++ -*-===//
//
// What machine code of every processor is made by: kernels are lowered to LLVM
// IR, optimised, and printed or emitted by a target machine.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_MACHINECODE_LLVMMODULE_H
#define SEXTANT_CODEGEN_MACHINECODE_LLVMMODULE_H

#include "codegen/MachineCode/FunctionClock.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <string>

namespace sextant::codegen {

/// Adds the dialects and translations that `translateKernels` needs.
void registerCompileDialects(mlir::DialectRegistry &registry);

/// What becomes of exponentials, sines and the like of scalars; those of
/// vectors are expanded into arithmetic always.
enum class ScalarMath {
  Calls,   ///< calls of the C library
  Expanded ///< arithmetic, too: where there is no library
};

/// Lowers the kernels in place and gives them as LLVM IR.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context,
                 ScalarMath math);

/// What does not change in a loop, such as addresses of a tile's rows.
enum class LoopInvariants {
  Move, ///< is made before the loop
  Stay  ///< is made where it is used: for an assembler that knows how many
        ///< registers a thread has, and moves what they hold
};

/// Kernels are vectorised, unrolled and blocked by hand: what is left to do is
/// to fold, to drop what stands twice, and to move what does not change out of
/// loops. LLVM's pipelines do far more, make the same instructions of it, and
/// take four times as long. Functions that must be inlined are. A clock is told
/// which function passes run on.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine,
                     LoopInvariants invariants, FunctionClock *clock = nullptr);

std::string printModule(const llvm::Module &module);

/// Machine code or its text. A clock is told which function passes run on.
llvm::Expected<std::string> emitFile(llvm::Module &module,
                                     llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type,
                                     FunctionClock *clock = nullptr);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_MACHINECODE_LLVMMODULE_H
