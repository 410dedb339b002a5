//===- ObjectCode.h - From the module of kernels to machine code *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
#define SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H

#include "codegen/Emit/CodeForm.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace llvm {
class Module;
} // namespace llvm

namespace sextant::codegen {

/// Adds the dialects and translations that `compileKernels` needs.
void registerCompileDialects(mlir::DialectRegistry &registry);

/// Compiles kernels for x86-64, in this process (see KernelCompiler).
llvm::Expected<std::string> compileKernels(mlir::ModuleOp kernels,
                                           const Processor &processor,
                                           CodeForm form);

/// The same of kernels that `change` makes others of, as LLVM IR, before they
/// are optimized.
llvm::Expected<std::string>
compileKernels(mlir::ModuleOp kernels, const Processor &processor,
               CodeForm form,
               llvm::function_ref<llvm::Error(llvm::Module &)> change);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
