//===- KeptMemory.h - Large blocks for one run after another ----*- C++ -*-===//
//
// A backward adds up tens or hundreds of megabytes that nobody sees after it.
// The C library gives so large a block back to the system, and the next run
// waits for each of its pages again: up to 8 % of its time. Here blocks stay
// for the next run that asks for their size, which in a training loop is the
// next. The system may take the pages of an idle one when it is short of
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPU_KEPTMEMORY_H
#define SEXTANT_RUNTIME_CPU_KEPTMEMORY_H

#include "runtime/Result.h"
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace sextant::runtime {

/// Blocks that are in use and blocks that are idle, of which there are never
/// more bytes in all than were once in use at the same time. Several threads
/// may ask at once. Blocks that are in use do not outlive it.
class KeptMemory {
public:
  /// Keeps at most `limit` bytes idle.
  explicit KeptMemory(int64_t limit = INT64_MAX) : limit(limit) {}
  KeptMemory(const KeptMemory &) = delete;
  KeptMemory &operator=(const KeptMemory &) = delete;
  ~KeptMemory();

  /// A block of at least `bytes`, of undefined contents and aligned to a huge
  /// page, which is given back when its last owner goes. Null: there is no
  /// memory.
  std::shared_ptr<void> take(int64_t bytes);
  /// Whether a block may ever be idle.
  bool keeps() const { return limit > 0; }
  /// Bytes of blocks that are idle.
  int64_t countIdle();

  /// That of this process. The error says what SEXTANT_KEEP_MEMORY should be.
  static Result<KeptMemory *> get();

private:
  struct Memory {
    void *data;
    int64_t bytes;
  };
  void give(Memory block);
  Memory takeIdle(int64_t bytes);
  void shrink(int64_t bytes);

  const int64_t limit;
  std::mutex mutex;
  std::vector<Memory> idle; ///< the one that was given last stands last
  int64_t idleBytes = 0, usedBytes = 0, mostBytes = 0;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPU_KEPTMEMORY_H
