//===- Model.h - A program from an artifact or from a model -----*- C++ -*-===//
//
// Tools that run programs take an artifact or a model. These functions load
// either, and compile the reference that results are compared with.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_MODEL_H
#define SEXTANT_TOOLS_SUPPORT_MODEL_H

#include "codegen/Driver/Compile.h"
#include "runtime/Program.h"

namespace sextant::tools {

/// The bytes of an artifact, whatever its file is called, or of what a model is
/// compiled to. Diagnostics of the compiler go to stderr.
runtime::Result<std::string>
readProgram(const std::string &path, const codegen::CompileOptions &options);

/// The program of an artifact for `target`, which must be there; where the
/// command line says `cpu` or lists several, that of an artifact of one target,
/// or the only one for a GPU of a fat one.
runtime::Result<runtime::Artifact> readGpuProgram(llvm::StringRef bytes,
                                                  llvm::StringRef target);

/// Loads an artifact, whatever its file is called, on the first GPU if it has
/// code of one, else on the host, as one for both where there is no GPU; or
/// compiles a model first. Diagnostics of the compiler, and which program of a
/// fat artifact it is, go to stderr.
runtime::Result<std::unique_ptr<runtime::Program>>
loadModel(const std::string &path, const codegen::CompileOptions &options);

/// Compiles the model for the reference target, with f32 in the place of bf16
/// and f16; of an artifact it loads the program for that target, which must be
/// there.
runtime::Result<std::unique_ptr<runtime::Program>>
loadReference(const std::string &path, codegen::CompileOptions options);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_MODEL_H
