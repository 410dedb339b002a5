//===- WrittenBytes.h - Which bytes of fresh memory hold values -*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H
#define SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H

#include "runtime/emulator/RaceCheck.h"

namespace sextant::runtime::emulator {

/// A range of memory that was fresh once, and which of its bytes were stored
/// since. Threads of the host may note accesses at the same time.
class WrittenBytes {
public:
  WrittenBytes() = default;
  WrittenBytes(const void *start, int64_t bytes)
      : start(reinterpret_cast<uintptr_t>(start)),
        written(static_cast<size_t>(bytes), 0) {}

  uintptr_t begin() const { return start; }
  uintptr_t end() const { return start + written.size(); }
  /// Whether all of an access lies here.
  bool contains(const Access &access) const;
  /// Notes a store; whether what loads, of bytes that lie here, finds values.
  bool note(const Access &access);

private:
  uintptr_t start = 0;
  std::vector<uint8_t> written;
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H
