//===- ArtifactFuzzer.cpp - Feeds the artifact loader arbitrary bytes -----===//
//
// This is a libFuzzer target. The loader must refuse or accept any bytes
// without reading outside of them; of what it accepts the manifest must print,
// launches must get their names, and code must be refused or taken. The
// checksum is skipped, or nothing but noise would be tested; it has tests of
// its own.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactReader.h"
#include "runtime/ElfCheck.h"
#include "runtime/LaunchHash.h"
#include "runtime/Manifest.h"

using namespace sextant::runtime;

// The name that libFuzzer calls.
// NOLINTNEXTLINE(custom-name-of-function)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (Result<Artifact> artifact = parseProgram({data, size})) {
    (void)formatManifest(*artifact);
    for (const Function &function : artifact->functions)
      (void)findLaunchSymbols(*artifact, function);
    for (const Object &object : artifact->objects)
      (void)static_cast<bool>(checkElf(object.code));
  }
  // The whole file's reader must cope with the same bytes.
  if (Result<Artifact> artifact = readArtifact({data, size}))
    (void)formatManifest(*artifact);
  return 0;
}
