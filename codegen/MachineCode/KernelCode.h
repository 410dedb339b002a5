//===- KernelCode.h - Forms in which code leaves the compiler ---*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_MACHINECODE_KERNELCODE_H
#define SEXTANT_CODEGEN_MACHINECODE_KERNELCODE_H

#include "codegen/Artifact/Artifact.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace sextant::codegen {

/// How far kernels are compiled.
enum class CodeForm {
  LLVM,     ///< optimised LLVM IR, as text
  Assembly, ///< assembly, as text: for a GPU of NVIDIA, PTX
  Object,   ///< what the runtime loads
};

/// Which processor machine code is made for, in LLVM's words.
struct Processor {
  std::string name;     ///< of the processor family
  std::string features; ///< feature string, on top of the family's
  /// Features that a device must have: checked before code is loaded.
  llvm::SmallVector<llvm::StringRef> required;
  /// Whether a short time to compile counts more than the speed of the code.
  bool compilesQuickly = false;
  /// Whether the time of each kernel is asked for: then they are assembled one
  /// after the other.
  bool timesKernels = false;
};

/// What a kernel takes of a GPU, as its assembler says.
struct KernelResources {
  std::string kernel;
  int64_t registers = 0;       ///< of a thread
  int64_t stackBytes = 0;      ///< of a thread
  int64_t spillStoreBytes = 0; ///< registers that are kept in memory
  int64_t spillLoadBytes = 0;
  /// Of the processor that the assembler took, where `Processor::timesKernels`.
  double milliseconds = 0;
};

/// Processor time, in milliseconds, that LLVM took for a kernel.
struct KernelTimes {
  std::string kernel;
  double optimizing = 0; ///< with the distribution of lanes to threads
  double emitting = 0;   ///< of PTX
};

/// The same of a module: of its kernels, and of what is of none of them.
struct CompileTimes {
  double lowering = 0; ///< from MLIR to LLVM IR
  double optimizing = 0;
  double emitting = 0;
  std::vector<KernelTimes> kernels;
};

/// The kernels of a module, compiled.
struct KernelCode {
  std::string text; ///< of the forms that are text
  /// Of `CodeForm::Object`. The first one is the host's, with the functions
  /// that count items; the others hold the code of all kernels for a device,
  /// the best one first.
  std::vector<CompiledObject> objects;
  /// Of each kernel, where an assembler says it.
  std::vector<KernelResources> resources;
  /// Where they are code of a GPU.
  std::optional<CompileTimes> times;
};

/// Compiles the functions of a module of kernels, which is lowered in place.
/// May be called from several threads. Failures come as text, diagnostics go to
/// the context.
using KernelCompiler = llvm::Expected<KernelCode> (*)(mlir::ModuleOp kernels,
                                                      const Processor &,
                                                      CodeForm);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_MACHINECODE_KERNELCODE_H
