//===- ObjectCode.h - From the module of kernels to code of x86 -*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
#define SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H

#include "codegen/MachineCode/KernelCode.h"
#include "codegen/MachineCode/LLVMModule.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sextant::codegen {

/// Compiles kernels for x86-64, in this process (see KernelCompiler).
llvm::Expected<KernelCode> compileKernels(mlir::ModuleOp kernels,
                                          const Processor &processor,
                                          CodeForm form);

/// The same of kernels that `change` makes others of, as LLVM IR, before they
/// are optimized.
llvm::Expected<KernelCode>
compileKernels(mlir::ModuleOp kernels, const Processor &processor,
               CodeForm form, ScalarMath math,
               llvm::function_ref<llvm::Error(llvm::Module &)> change);

/// Compiles LLVM IR for x86-64: what the host runs of kernels whose code is
/// that of a device.
llvm::Expected<CompiledObject> compileForHost(llvm::Module &module,
                                              const Processor &processor);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_MACHINECODE_OBJECTCODE_H
