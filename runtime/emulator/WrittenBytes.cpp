//===- WrittenBytes.cpp - Which bytes of fresh memory hold values ---------===//

#include "runtime/emulator/WrittenBytes.h"
#include <algorithm>

using namespace sextant::runtime::emulator;

/// Four bytes that all hold values.
static constexpr uint32_t kWhole = 0x01010101;

/// As `note`, of whole words: byte by byte it takes a tenth of an emulated
/// kernel's time.
static bool noteWords(uint8_t *bytes, size_t count, AccessKind kind) {
  for (size_t at = 0; at != count; at += sizeof(kWhole)) {
    std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t *>(bytes + at));
    bool isWhole = word.load(std::memory_order_relaxed) == kWhole;
    if (kind != AccessKind::Store && !isWhole)
      return false;
    if (!isWhole)
      word.store(kWhole, std::memory_order_relaxed);
  }
  return true;
}

bool WrittenBytes::note(const Access &access) {
  uintptr_t offset = access.begin() - start;
  auto count = static_cast<size_t>(access.bytes);
  if ((offset | count) % sizeof(kWhole) == 0 && contains(access))
    return noteWords(&written[offset], count, access.kind);
  uintptr_t from = std::max(access.begin(), begin());
  uintptr_t to =
      std::min(access.begin() + static_cast<uintptr_t>(access.bytes), end());
  for (uintptr_t address = from; address < to; ++address) {
    std::atomic_ref<uint8_t> byte(written[address - start]);
    if (access.kind != AccessKind::Store &&
        !byte.load(std::memory_order_relaxed))
      return false;
    if (!access.isLoad())
      byte.store(1, std::memory_order_relaxed);
  }
  return true;
}
