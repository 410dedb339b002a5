//===- FatArtifact.h - Several programs in one file -------------*- C++ -*-===//
//
// A fat artifact holds one model compiled for several devices, each a whole
// artifact of its own (FatArtifact.fbs). A device is given the first that it
// runs.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_FATARTIFACT_H
#define SEXTANT_RUNTIME_FATARTIFACT_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// One of the programs, as the bytes of a file.
struct FatPart {
  std::string target;
  std::vector<uint8_t> bytes;
};

/// The parts inside of a fat artifact's FlatBuffer (what a fuzzer feeds, past
/// the checksum).
Result<std::vector<FatPart>> parseParts(std::span<const uint8_t> bytes);

/// Reads a whole `.sxt` file: the programs of a fat one, all of them checked,
/// or the one of another. They have the same functions with the same arguments
/// and results, and the same parameters. Errors name the part.
Result<std::vector<Artifact>> readArtifacts(std::span<const uint8_t> bytes);

/// The targets of some programs, as the command line takes them: "cpu:avx2" or
/// "cpu:avx2,cuda:sm_80".
std::string joinTargets(std::span<const Artifact> artifacts);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_FATARTIFACT_H
