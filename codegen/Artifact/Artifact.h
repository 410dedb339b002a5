//===- Artifact.h - From exec to the bytes of a .sxt file -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_ARTIFACT_H
#define SEXTANT_CODEGEN_ARTIFACT_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/Artifact_generated.h"
#include <string>
#include <vector>

namespace sextant::codegen {

/// An object of the artifact (Artifact.fbs).
struct CompiledObject {
  artifact::ObjectKind kind = artifact::ObjectKind::SharedObject;
  std::string architecture;
  std::vector<std::string> features;
  std::string code;
};

/// Writes the public functions and the `exec.parameter`s of `module` with
/// the compiled kernels. All kernels stand in each of `objects`: in one shared
/// object with functions of the host, and, for a GPU, in cubins and PTX, best
/// first. A module without launches needs none. Fails, with a diagnostic at the
/// op, on anything that is not exec (see the dialect's text).
mlir::FailureOr<std::string>
writeArtifact(mlir::ModuleOp module, llvm::ArrayRef<CompiledObject> objects,
              llvm::StringRef target);

/// A finished FlatBuffer, followed by its checksum: what a `.sxt` file holds.
std::string sealBytes(flatbuffers::FlatBufferBuilder &builder);

/// "sextant 0.1.0 (LLVM 22.1.8)".
std::string getCompilerVersion();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_ARTIFACT_H
