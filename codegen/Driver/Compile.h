//===- Compile.h - From a model to an artifact ------------------*- C++ -*-===//
//
// The compiler as one call: what tools and bindings use.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_DRIVER_COMPILE_H
#define SEXTANT_CODEGEN_DRIVER_COMPILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <string>

namespace sextant::codegen {

struct KernelCode;

/// What a compilation follows besides the model: all of it, but for the cache's
/// use and who is told, is part of the key of a cached artifact.
struct CompileOptions {
  /// See parseTarget. An artifact may have several, with commas between them:
  /// then it is a fat one, with a program for each, best first.
  std::string target = "cpu";
  std::string searchPath; ///< folders of encodings, separated by colons
  bool useCache = true;   ///< look into the disk cache, and fill it
  /// Stop a call whose payloads read outside of a parameter, see
  /// `pos-lower-attention`. Also asked for by SEXTANT_CHECK=reads.
  bool checkReads = false;
  /// Make machine code in half the time, which then runs slowly. Also asked for
  /// by SEXTANT_CODE=quick.
  bool compilesQuickly = false;
  /// Make one launch of launches that do not wait for each other, see
  /// `exec-merge-launches`. SEXTANT_CHECK=launches keeps them apart.
  bool mergeLaunches = true;
  /// Optional: is told of kernels that are compiled, which those of an artifact
  /// of the cache are not.
  std::function<void(const KernelCode &)> tellCode;
};

/// What a compilation stops at.
enum class CompileStage {
  Pos,      ///< fused and hoisted sites
  Exec,     ///< launches and kernels
  Kernel,   ///< the module of kernels alone
  LLVM,     ///< its LLVM IR, optimised
  Assembly, ///< its assembly
  Artifact, ///< the bytes of a .sxt file
};

/// Adds the dialects, and nothing else, that a compilation needs: a context
/// with these is cheap to make.
void registerCompilerDialects(mlir::DialectRegistry &registry);

/// From a model to launches of kernels: every pass up to the level of exec, for
/// a target.
void buildCompilePipeline(mlir::OpPassManager &passes,
                          const CompileOptions &options);

/// Makes the pipeline known as `sextant-pipeline{target=.. search-path=..}`.
void registerCompilePipeline();

/// Compiles `module`, which is changed in place, to the text or the bytes of a
/// stage. Diagnostics go to the context; the error says at which step.
llvm::Expected<std::string> compileToStage(mlir::ModuleOp module,
                                           const CompileOptions &options,
                                           CompileStage stage);

/// Compiles to the bytes of a .sxt file, by the disk cache where it can; for
/// several targets to those of a fat one.
llvm::Expected<std::string> compileToArtifact(mlir::ModuleOp module,
                                              const CompileOptions &options);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_DRIVER_COMPILE_H
