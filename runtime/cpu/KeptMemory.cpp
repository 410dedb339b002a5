//===- KeptMemory.cpp - Large blocks for one run after another ------------===//
//
// A block that is too large by a quarter at most serves, too. Where none does,
// those that have been idle for longest go before a new one is allocated.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/KeptMemory.h"
#include "runtime/HugePages.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>

using namespace sextant::runtime;

KeptMemory::~KeptMemory() { shrink(0); }

/// Frees the oldest idle blocks, until so many bytes are left.
void KeptMemory::shrink(int64_t bytes) {
  auto last = idle.begin();
  for (; last != idle.end() && idleBytes > bytes; ++last) {
    idleBytes -= last->bytes;
    std::free(last->data);
  }
  idle.erase(idle.begin(), last);
}

/// The smallest idle block that serves for so many bytes, or a null one.
KeptMemory::Memory KeptMemory::takeIdle(int64_t bytes) {
  auto best = idle.end();
  for (auto block = idle.begin(); block != idle.end(); ++block)
    if (block->bytes >= bytes && block->bytes - bytes <= bytes / 4 &&
        (best == idle.end() || block->bytes <= best->bytes))
      best = block;
  if (best == idle.end())
    return {nullptr, bytes};
  Memory found = *best;
  idle.erase(best);
  idleBytes -= found.bytes;
  return found;
}

std::shared_ptr<void> KeptMemory::take(int64_t bytes) {
  int64_t room;
  if (__builtin_add_overflow(bytes, hugePage - 1, &room))
    return nullptr;
  room = room / hugePage * hugePage;
  std::lock_guard lock(mutex);
  Memory block = takeIdle(room);
  auto allocate = [&] {
    block.data = std::aligned_alloc(static_cast<size_t>(hugePage),
                                    static_cast<size_t>(room));
  };
  if (!block.data) {
    shrink(std::max<int64_t>(mostBytes - usedBytes - room, 0));
    allocate();
    if (!block.data) {
      shrink(0);
      allocate();
    }
    if (!block.data)
      return nullptr;
    adviseHugePages(block.data, room);
  }
  usedBytes += block.bytes;
  mostBytes = std::max(mostBytes, usedBytes);
  return {block.data, [this, block](void *) { give(block); }};
}

void KeptMemory::give(Memory block) {
  // Before another may have it: the contents go with this, at once or later.
  (void)::madvise(block.data, static_cast<size_t>(block.bytes), MADV_FREE);
  std::lock_guard lock(mutex);
  usedBytes -= block.bytes;
  idle.push_back(block);
  idleBytes += block.bytes;
  shrink(limit);
}

int64_t KeptMemory::countIdle() {
  std::lock_guard lock(mutex);
  return idleBytes;
}

/// The bytes that SEXTANT_KEEP_MEMORY allows, in MiB; without it all.
static Result<int64_t> readLimit() {
  const char *text = std::getenv("SEXTANT_KEEP_MEMORY");
  if (!text || !*text)
    return INT64_MAX;
  int64_t mebibytes = 0;
  const char *end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, mebibytes);
  if (error != std::errc() || rest != end || mebibytes < 0 ||
      mebibytes > INT64_MAX >> 20)
    return makeError("SEXTANT_KEEP_MEMORY is how many MiB may be kept from one "
                     "call to the next, such as 0, not '",
                     text, "'");
  return mebibytes << 20;
}

Result<KeptMemory *> KeptMemory::get() {
  // A child of a fork has the mutex as it was, but not the thread that held it.
  // Never destroyed: threads may outlive static objects.
  static const Result<KeptMemory *> memory = []() -> Result<KeptMemory *> {
    Result<int64_t> limit = readLimit();
    if (!limit)
      return limit.error();
    static KeptMemory *const made = new KeptMemory(*limit);
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                   [] { made->mutex.unlock(); });
    return made;
  }();
  return memory;
}
