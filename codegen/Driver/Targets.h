//===- Targets.h - The table of targets -------------------------*- C++ -*-===//
//
// Everything that a target is stands in one entry of the table: nothing else
// asks for a target's name, and no other file knows which targets there are.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_DRIVER_TARGETS_H
#define SEXTANT_CODEGEN_DRIVER_TARGETS_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Host/Peak.h"
#include "codegen/MachineCode/KernelCode.h"
#include "runtime/ArtifactFormat.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace sextant::codegen {

/// What the rows that attention multiplies are made of. `LongF32`: of f32, and
/// every head has so many queries that splitting its keys and values into terms
/// is worth it (Tiles/Terms.h).
enum class RowType { F32, LongF32, BF16 };

/// Forms of a program that a target may ask passes for.
struct Capabilities {
  /// Sums of rectified units as piecewise-linear functions (`pos.hinges`).
  bool hasHinges = false;
  /// Lanes that hold no part of a row as addends of shorter products.
  bool formsAddends = false;
  /// Products with one row per offset (`pos.offset_dot`).
  bool hasOffsetProducts = false;
  /// Row maps of embeddings that take their rows from the table themselves.
  bool gathersRows = false;
  /// Kernels that draw random masks, where the runtime does not.
  bool drawsMasks = false;
  /// Columns of a product beside which the backward evaluates functions of the
  /// forward again (`--nn-recompute-activations`).
  int64_t leastColumns = 256;
};

/// A machine that programs are made for: what its memory and elements are, how
/// kernels are lowered and compiled for it, and which devices run them.
struct Target {
  std::string name; ///< "cpu:avx512"
  /// Where its tensors are, and what they are made of, in the words of PyTorch
  /// and of MLIR.
  llvm::StringRef device = "cpu";
  llvm::SmallVector<llvm::StringRef, 3> elementTypes;
  VectorTarget vector;
  TargetLowerings lowerings;
  Capabilities capabilities;
  Processor processor;
  KernelCompiler compile = nullptr;
  /// What `compile` finds on this machine that code follows from, besides the
  /// compiler itself; null: nothing.
  std::string (*describeTools)() = nullptr;
  /// Which machines run the code of kernels (Artifact.fbs).
  llvm::StringRef architecture = runtime::x86Architecture;
  /// Whether the machine runs code of another one by its instructions.
  bool isEmulated = false;
  /// What it multiplies rows with; none: `cpu` never means this target.
  std::optional<Unit> f32Unit, bf16Unit;

  /// What `cpu` compares of targets. Few rows of f32 are not multiplied on
  /// tiles by choice, whatever the rates.
  std::optional<Unit> getUnit(RowType rows) const;
  /// How much of the unit's rate products of rows have: on tiles of bf16 one of
  /// f32 is several (Tiles/Terms.h).
  double getShareOfUnit(RowType rows) const;
};

/// Adds what the modules of kernels of all targets are made of, its
/// translations, and how ops of payloads are emitted.
void registerTargetDialects(mlir::DialectRegistry &registry);

/// Adds a target, by which name all tools find it from then on: for
/// experiments and tests. Its name must be new. Not while another thread
/// compiles.
llvm::Error registerTarget(Target target);

/// What may be asked for by name, as a text: "cpu, reference, ...".
std::string listTargets();

/// The target of a name in the table; the error of an unknown one lists them.
/// `cpu` is no target, see TargetChoice.h.
llvm::Expected<Target> findTarget(llvm::StringRef name);

/// Of these, the names that this machine can run: the reference, then those of
/// the CPU, best first.
llvm::SmallVector<llvm::StringRef> getHostTargets();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_DRIVER_TARGETS_H
