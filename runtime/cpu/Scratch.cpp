//===- Scratch.cpp - Memory that kernels work in --------------------------===//
//
// Buffers only grow. One that is too small is freed before a larger one is
// allocated, so that both never exist at once.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/Scratch.h"
#include "runtime/HugePages.h"
#include <cstdlib>
#include <cstring>
#include <pthread.h>

using namespace sextant::runtime;

/// What a second cache is asked to hold for long. In pages of 4 KiB, which lie
/// anywhere in memory, some of its sets get more than they have room for, and
/// which these are is another thing in each process.
static constexpr int64_t muchOfACache = int64_t(128) << 10;

void Scratch::Free::operator()(void *memory) const { std::free(memory); }

Status Scratch::reserve(int64_t workers, int64_t bytes) {
  if (static_cast<int64_t>(buffers.size()) < workers)
    buffers.resize(static_cast<size_t>(workers));
  for (int64_t worker = 0; worker < workers; ++worker) {
    Buffer &buffer = buffers[static_cast<size_t>(worker)];
    if (buffer.bytes >= bytes)
      continue;
    int64_t alignment = bytes >= muchOfACache ? hugePage : 64;
    int64_t room;
    if (__builtin_add_overflow(bytes, alignment - 1, &room))
      return makeError("a kernel asks for ", bytes, " bytes of scratch");
    room = room / alignment * alignment;
    buffer.data.reset(); // not both at once
    buffer.bytes = 0;
    buffer.data.reset(std::aligned_alloc(static_cast<size_t>(alignment),
                                         static_cast<size_t>(room)));
    if (!buffer.data)
      return makeError("aligned_alloc: no memory for ", room,
                       " bytes of scratch per thread");
    buffer.bytes = room;
    adviseHugePages(buffer.data.get(), room);
  }
  return {};
}

void Scratch::poison() {
  for (const Buffer &buffer : buffers)
    if (buffer.data)
      std::memset(buffer.data.get(), 0xff, static_cast<size_t>(buffer.bytes));
}

std::unique_ptr<Scratch> ScratchPool::take() {
  std::lock_guard lock(mutex);
  if (idle.empty())
    return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(idle.back());
  idle.pop_back();
  return scratch;
}

void ScratchPool::give(std::unique_ptr<Scratch> scratch) {
  std::lock_guard lock(mutex);
  idle.push_back(std::move(scratch));
}

ScratchPool &ScratchPool::get() {
  // A child of a fork has the mutex as it was, but not the thread that held it.
  // Never destroyed: threads may outlive static objects.
  static ScratchPool *const pool = [] {
    static ScratchPool *const made = new ScratchPool;
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                   [] { made->mutex.unlock(); });
    return made;
  }();
  return *pool;
}
