//===- FatArtifact.h - Several programs as one file -------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_FATARTIFACT_H
#define SEXTANT_CODEGEN_ARTIFACT_FATARTIFACT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

/// The bytes of a fat artifact (runtime/FatArtifact.fbs) of the artifacts of
/// one model, best first. Constant tensors and code that several of them have
/// are stored once.
llvm::Expected<std::string> packPrograms(llvm::ArrayRef<std::string> artifacts);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_FATARTIFACT_H
