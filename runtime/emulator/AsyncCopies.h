//===- AsyncCopies.h - Copies that are under way ----------------*- C++ -*-===//
//
// cp.async: a thread begins copies to shared memory, makes groups of them, and
// waits for groups. Until then nobody may count on the bytes: they are NaN
// here, and whoever touches them is found out.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_ASYNCCOPIES_H
#define SEXTANT_RUNTIME_EMULATOR_ASYNCCOPIES_H

#include "runtime/emulator/RaceCheck.h"
#include <deque>

namespace sextant::runtime::emulator {

/// What a copy stores, which is at most 16 bytes.
struct AsyncCopy {
  void *to;
  int32_t bytes;
  int32_t place; ///< of the instruction
};

/// Whose copy is still to bring a byte.
struct InFlight {
  int32_t thread, place;
};

/// The copies of the threads of a block.
class AsyncCopies {
public:
  /// Forgets all; from here on so many threads run.
  void clear(int32_t threads);

  /// Takes what a copy brings: `given` bytes at `from`, then zeros.
  void begin(int32_t thread, const AsyncCopy &copy, const void *from,
             int32_t given);
  /// The copies that a thread has begun since the last time are a group.
  void commit(int32_t thread);
  /// Brings what all groups of a thread but the latest `groups` copy, and gives
  /// those copies.
  std::vector<AsyncCopy> wait(int32_t thread, int32_t groups);

  bool isAnyUnderWay() const { return !words.empty(); }
  /// A copy that is still to bring a byte of an access.
  std::optional<InFlight> find(const Access &access) const;

private:
  static constexpr int32_t kMost = 16;
  struct Copy : AsyncCopy {
    std::array<uint8_t, kMost> contents;
  };
  using Group = std::vector<Copy>;
  struct Thread {
    Group begun;
    std::deque<Group> committed;
  };

  std::vector<Thread> threads;
  std::unordered_map<uintptr_t, InFlight> words; ///< by address / 4
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_ASYNCCOPIES_H
