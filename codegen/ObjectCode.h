//===- ObjectCode.h - From the module of kernels to machine code *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_OBJECTCODE_H
#define SEXTANT_CODEGEN_OBJECTCODE_H

#include "codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::codegen {

enum class CodeForm {
  LLVM,         ///< optimised LLVM IR, as text
  Assembly,     ///< assembly, as text
  SharedObject, ///< an ELF shared object that exports the kernels
};

/// Adds the dialects and translations that `compileKernels` needs.
void registerCompileDialects(mlir::DialectRegistry &registry);

/// Compiles the functions of `kernels`, which is lowered in place. Everything
/// happens in this process; may be called from several threads. Failures come
/// as text, diagnostics go to the context.
llvm::Expected<std::string> compileKernels(mlir::ModuleOp kernels,
                                           const Target &target, CodeForm form);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_OBJECTCODE_H
