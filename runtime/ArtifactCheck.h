//===- ArtifactCheck.h - The one semantic check of a program ----*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_ARTIFACTCHECK_H
#define SEXTANT_RUNTIME_ARTIFACTCHECK_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// The semantic check of what was read; part of parseProgram.
Status checkArtifact(const Artifact &artifact);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ARTIFACTCHECK_H
