//===- ArtifactFormat.h - Version and checksum of a .sxt file ---*- C++ -*-===//
//
// The compiler that writes artifacts and the runtime that reads them share this
// file. The checksum is FNV-1a with 64 bits, in the last 8 bytes. Each step is
// a bijection of the state, so any single changed byte changes the sum; it
// guards against damage, not against malice.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_ARTIFACTFORMAT_H
#define SEXTANT_RUNTIME_ARTIFACTFORMAT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sextant::runtime {

/// The format that this compiler writes and this runtime reads.
inline constexpr uint32_t artifactFormat = 4;

/// What objects call the architecture of 64-bit x86 processors.
inline constexpr std::string_view x86Architecture = "x86-64";

/// The format of a file of several programs.
inline constexpr uint32_t fatFormat = 1;

/// The identifiers of FlatBuffers, which follow the first offset: of one
/// program, and of several.
inline constexpr std::string_view programIdentifier = "SXT1";
inline constexpr std::string_view fatIdentifier = "SXTF";

inline bool hasIdentifier(std::span<const uint8_t> bytes,
                          std::string_view identifier) {
  constexpr size_t offsetBytes = 4;
  return bytes.size() >= offsetBytes + identifier.size() &&
         std::equal(identifier.begin(), identifier.end(),
                    bytes.begin() + offsetBytes);
}

/// Whether these are the first bytes of an artifact of several programs.
inline bool isFat(std::span<const uint8_t> bytes) {
  return hasIdentifier(bytes, fatIdentifier);
}

/// Whether these are the first bytes of an artifact.
inline bool hasArtifactIdentifier(std::span<const uint8_t> bytes) {
  return hasIdentifier(bytes, programIdentifier) || isFat(bytes);
}

inline constexpr size_t checksumBytes = 8;

inline uint64_t computeChecksum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (uint8_t byte : bytes)
    sum = (sum ^ byte) * 0x100000001b3;
  return sum;
}

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ARTIFACTFORMAT_H
