//===- CodeForm.h - Forms in which code leaves the compiler -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_EMIT_CODEFORM_H
#define SEXTANT_CODEGEN_EMIT_CODEFORM_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

enum class CodeForm {
  LLVM,     ///< optimised LLVM IR, as text
  Assembly, ///< assembly, as text
  Object,   ///< what the runtime loads: for x86 an ELF shared object that
            ///< exports the kernels
};

/// Which processor machine code is made for, in LLVM's words.
struct Processor {
  std::string name;     ///< of the processor family
  std::string features; ///< feature string, on top of the family's
  /// Features that a device must have: checked before code is loaded.
  llvm::SmallVector<llvm::StringRef> required;
  /// Whether a short time to compile counts more than the speed of the code.
  bool compilesQuickly = false;
};

/// Compiles the functions of a module of kernels, which is lowered in place.
/// May be called from several threads. Failures come as text, diagnostics go to
/// the context.
using KernelCompiler = llvm::Expected<std::string> (*)(mlir::ModuleOp kernels,
                                                       const Processor &,
                                                       CodeForm);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_CODEFORM_H
