//===- HostDevice.cpp - The host without LibTorch -------------------------===//
//
// Memory comes from aligned_alloc. A launch starts its threads and joins them:
// no pool of threads outlives it.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/HostDevice.h"
#include "runtime/HugePages.h"
#include "runtime/cpu/HostLaunch.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

using namespace sextant::runtime;

static std::atomic<int64_t> threadCount = 0; // 0: as many as there are cores

Result<Tensor>
sextant::runtime::allocateOnHost(DType dtype, std::span<const int64_t> sizes) {
  int64_t count = countElements(dtype, sizes);
  if (count < 0 || sizes.size() > maxRank)
    return makeError("a tensor cannot have the shape ", formatShape(sizes));
  size_t bytes = static_cast<size_t>(count * getByteSize(dtype));
  size_t room = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  void *memory = room < bytes ? nullptr : std::aligned_alloc(64, room);
  if (!memory)
    return makeError("aligned_alloc: no memory for a tensor of shape ",
                     formatShape(sizes), " (", bytes, " bytes)");
  adviseHugePages(memory, static_cast<int64_t>(room));
  Tensor tensor;
  tensor.data = memory;
  tensor.dtype = dtype;
  tensor.setShape(sizes);
  tensor.owner = std::shared_ptr<void>(memory, std::free);
  return tensor;
}

int64_t sextant::runtime::getHostThreads() {
  int64_t set = threadCount.load();
  return set ? set : std::max<int64_t>(std::thread::hardware_concurrency(), 1);
}

void sextant::runtime::setHostThreads(int64_t threads) {
  threadCount.store(std::max<int64_t>(threads, 1));
}

static Status runParallel(int64_t workers,
                          void (*work)(void *context, int64_t worker),
                          void *context) {
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(workers));
  for (int64_t worker = 1; worker < workers; ++worker)
    others.emplace_back(work, context, worker);
  work(context, 0);
  for (std::thread &other : others)
    other.join();
  return {};
}

static Result<Tensor> allocate(void *, DType dtype,
                               std::span<const int64_t> sizes) {
  return allocateOnHost(dtype, sizes);
}

static Result<int64_t> launch(void *, void *session, const Kernel &kernel,
                              std::span<const int64_t> arguments) {
  return launchOnHost(session, kernel, arguments,
                      {getHostThreads, runParallel});
}

const Device &sextant::runtime::getHostDevice() {
  static const Device device = makeHostDevice("host", allocate, launch);
  return device;
}
