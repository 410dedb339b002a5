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

/// Loads an artifact, whatever its file is called, on the first GPU if it has
/// code of one, else on the host; or compiles a model first. Diagnostics of the
/// compiler go to stderr.
runtime::Result<std::unique_ptr<runtime::Program>>
loadModel(const std::string &path, const codegen::CompileOptions &options);

/// Compiles the model for the reference target, with f32 in the place of bf16
/// and f16.
runtime::Result<std::unique_ptr<runtime::Program>>
loadReference(const std::string &path, codegen::CompileOptions options);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_MODEL_H
