//===- WrittenBytes.cpp - Which bytes of fresh memory hold values ---------===//

#include "runtime/emulator/WrittenBytes.h"
#include <algorithm>

using namespace sextant::runtime::emulator;

/// Byte by byte it takes a tenth of an emulated kernel's time.
bool WrittenBytes::noteWords(uintptr_t offset, size_t count, AccessKind kind) {
  for (size_t at = offset; at != offset + count; at += sizeof(Word)) {
    std::atomic_ref<Word> word(*reinterpret_cast<Word *>(&written[at]));
    bool isWhole = word.load(std::memory_order_relaxed) == kWritten<Word>;
    if (kind != AccessKind::Store && !isWhole)
      return false;
    if (!isWhole)
      word.store(kWritten<Word>, std::memory_order_relaxed);
  }
  return true;
}

bool WrittenBytes::note(const Access &access) {
  uintptr_t offset = access.begin() - start;
  auto count = static_cast<size_t>(access.bytes);
  if ((offset | count) % sizeof(Word) == 0 && contains(access))
    return noteWords(offset, count, access.kind);
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
