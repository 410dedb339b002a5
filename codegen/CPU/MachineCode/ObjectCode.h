//===- ObjectCode.h - From the module of kernels to machine code *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
#define SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H

#include "codegen/Emit/CodeForm.h"

namespace sextant::codegen {

/// Adds the dialects and translations that `compileKernels` needs.
void registerCompileDialects(mlir::DialectRegistry &registry);

/// Compiles kernels for x86-64, in this process (see KernelCompiler).
llvm::Expected<std::string> compileKernels(mlir::ModuleOp kernels,
                                           const Processor &processor,
                                           CodeForm form);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
