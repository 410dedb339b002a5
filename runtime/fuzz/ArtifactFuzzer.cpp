//===- ArtifactFuzzer.cpp - Feeds the artifact loader arbitrary bytes -----===//
//
// This is a libFuzzer target. The loader must refuse or accept any bytes
// without reading outside of them; of what it accepts the manifest must print,
// launches must get their names, and code must be refused or taken. The
// checksum is skipped, or nothing but noise would be tested; it has tests of
// its own.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactFormat.h"
#include "runtime/ElfCheck.h"
#include "runtime/FatArtifact.h"
#include "runtime/LaunchHash.h"
#include "runtime/Manifest.h"

using namespace sextant::runtime;

static void take(const Artifact &artifact) {
  (void)formatManifest({&artifact, 1});
  for (const Function &function : artifact.functions)
    (void)findLaunchSymbols(artifact, function);
  for (const Object &object : artifact.objects)
    (void)static_cast<bool>(checkElf(object.code));
}

// The name that libFuzzer calls.
// NOLINTNEXTLINE(custom-name-of-function)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (Result<Artifact> artifact = parseProgram({data, size}))
    take(*artifact);
  // Of a fat artifact the parts; their checksums are skipped as well.
  if (Result<std::vector<FatPart>> parts = parseParts({data, size}))
    for (const FatPart &part : *parts)
      if (part.bytes.size() >= checksumBytes) {
        std::span<const uint8_t> bytes(part.bytes);
        Result<Artifact> artifact =
            parseProgram(bytes.first(bytes.size() - checksumBytes));
        if (artifact)
          take(*artifact);
      }
  // The whole file's reader must cope with the same bytes.
  if (Result<std::vector<Artifact>> artifacts = readArtifacts({data, size}))
    (void)formatManifest(*artifacts);
  return 0;
}
