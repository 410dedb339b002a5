//===- Target.h - What kernels are compiled for -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_TARGET_H
#define SEXTANT_CODEGEN_TARGET_H

#include "codegen/KernelBuilder.h"
#include "codegen/Peak.h"
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

/// What the rows that attention multiplies are made of.
enum class RowType { F32, BF16 };

/// `reference`, `cpu:avx2`, `cpu:avx512`, `cpu:avx512bf16`, or `cpu`: the
/// target that SEXTANT_TARGET names, or else the one whose unit for rows of
/// this type this machine was measured to run fastest. Errors of unknown names
/// list them.
llvm::Expected<Target> parseTarget(llvm::StringRef name,
                                   RowType rows = RowType::F32);

/// What `cpu` means by measured rates alone; an error where this machine runs
/// no target of the CPU.
llvm::Expected<Target> chooseTarget(const UnitRates &rates, RowType rows);

/// The unit that a target of the CPU multiplies rows with.
Unit getUnit(const Target &target, RowType rows);

/// The names of targets that this machine can run, without `cpu`.
llvm::SmallVector<llvm::StringRef> getHostTargets();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TARGET_H
