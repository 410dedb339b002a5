//===- WrittenBytes.h - Which bytes of fresh memory hold values -*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H
#define SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H

#include "runtime/emulator/RaceCheck.h"
#include <atomic>
#include <limits>

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
  bool contains(const Access &access) const {
    uintptr_t first = access.begin();
    return first >= begin() &&
           first + static_cast<uintptr_t>(access.bytes) <= end();
  }
  /// Whether all of an access lies here and holds values; an answer in a few
  /// instructions, which may be false of what is no word or half of one.
  bool holds(const Access &access) const;
  /// Notes a store; whether what loads, of bytes that lie here, finds values.
  bool note(const Access &access);

private:
  /// As many bytes as an integer has that all hold values.
  template <typename Int>
  static constexpr Int kWritten = std::numeric_limits<Int>::max() / 0xff;
  using Word = uint32_t;

  /// Whether as many bytes as an integer has hold values.
  template <typename Int> bool areWritten(uintptr_t offset) const {
    std::atomic_ref<const Int> found(
        *reinterpret_cast<const Int *>(&written[offset]));
    return offset % sizeof(Int) == 0 &&
           found.load(std::memory_order_relaxed) == kWritten<Int>;
  }
  /// As `note`, of whole words that lie here.
  bool noteWords(uintptr_t offset, size_t count, AccessKind kind);

  uintptr_t start = 0;
  std::vector<uint8_t> written;
};

inline bool WrittenBytes::holds(const Access &access) const {
  if (!contains(access))
    return false;
  uintptr_t offset = access.begin() - start;
  if (access.bytes == 2)
    return areWritten<uint16_t>(offset);
  uintptr_t behind = offset + static_cast<uintptr_t>(access.bytes);
  bool areWords = access.bytes % sizeof(Word) == 0;
  for (; areWords && offset != behind; offset += sizeof(Word))
    areWords = areWritten<Word>(offset);
  return areWords;
}

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_WRITTENBYTES_H
