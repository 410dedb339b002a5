//===- ArtifactFormat.h - Version and checksum of a .sxt file ---*- C++ -*-===//
//
// Shared by the compiler that writes and the runtime that reads. The checksum
// is FNV-1a with 64 bits, in the last 8 bytes. Each step is a bijection of the
// state, so any single changed byte changes the sum; it guards against damage,
// not against malice.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_ARTIFACTFORMAT_H
#define SEXTANT_RUNTIME_ARTIFACTFORMAT_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant::runtime {

/// The format that this compiler writes and this runtime reads.
inline constexpr uint32_t artifactFormat = 1;

inline constexpr size_t checksumBytes = 8;

inline uint64_t computeChecksum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (uint8_t byte : bytes)
    sum = (sum ^ byte) * 0x100000001b3;
  return sum;
}

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ARTIFACTFORMAT_H
