//===- Target.h - What kernels are compiled for -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_TARGET_H
#define SEXTANT_CODEGEN_TARGET_H

#include "codegen/KernelBuilder.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

enum class TargetKind {
  Reference, ///< the definition, run literally: f32 and f64, any machine
  CPU,       ///< tiled kernels in vector registers: f32 and bf16
};

struct Target {
  TargetKind kind = TargetKind::Reference;
  std::string name;     ///< canonical: "cpu:avx512", never "cpu"
  std::string cpu;      ///< LLVM's name of the processor family
  std::string features; ///< LLVM's feature string, on top of `cpu`
  VectorTarget vector;
  /// What a processor must have, as named by LLVM: checked before loading.
  llvm::SmallVector<llvm::StringRef> required;
};

/// `reference`, `cpu` (the best that this machine runs), `cpu:avx2`,
/// `cpu:avx512` or `cpu:avx512bf16`. The error of an unknown name lists them.
llvm::Expected<Target> parseTarget(llvm::StringRef name);

/// The names that `parseTarget` takes and this machine can run.
llvm::SmallVector<llvm::StringRef> getHostTargets();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TARGET_H
