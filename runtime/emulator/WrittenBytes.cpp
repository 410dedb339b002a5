//===- WrittenBytes.cpp - Which bytes of fresh memory hold values ---------===//

#include "runtime/emulator/WrittenBytes.h"
#include <algorithm>
#include <atomic>

using namespace sextant::runtime::emulator;

bool WrittenBytes::contains(const Access &access) const {
  uintptr_t first = access.begin();
  return first >= begin() &&
         first + static_cast<uintptr_t>(access.bytes) <= end();
}

bool WrittenBytes::note(const Access &access) {
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
