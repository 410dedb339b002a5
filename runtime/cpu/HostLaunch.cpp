//===- HostLaunch.cpp - What devices of the host do alike -----------------===//
//
// A launch asks the kernel for its work items and its scratch memory, and hands
// out ranges of items until none is left.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/HostLaunch.h"
#include "runtime/Checks.h"
#include "runtime/HugePages.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/cpu/ItemRanges.h"
#include "runtime/cpu/KeptMemory.h"
#include "runtime/cpu/Scratch.h"
#include <algorithm>
#include <cstring>

using namespace sextant::runtime;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Result<Tensor> allocateKept(DType dtype, std::span<const int64_t> sizes,
                                   int64_t bytes) {
  Result<KeptMemory *> memory = KeptMemory::get();
  if (!memory)
    return memory.error();
  if (!(*memory)->keeps()) // nor rounds up to whole pages
    return allocateOnHost(dtype, sizes);
  Tensor tensor;
  tensor.owner = (*memory)->take(bytes);
  if (!tensor.owner)
    return makeError("aligned_alloc: no memory for a tensor of shape ",
                     formatShape(sizes), " (", bytes, " bytes)");
  tensor.data = tensor.owner.get();
  tensor.dtype = dtype;
  tensor.setShape(sizes);
  return tensor;
}

/// The C library keeps smaller blocks by itself.
static constexpr int64_t leastKept = hugePage;

static Result<Tensor> allocateTemporary(void *, DType dtype,
                                        std::span<const int64_t> sizes) {
  int64_t bytes = countElements(dtype, sizes) * getByteSize(dtype);
  bool isKept = bytes >= leastKept && sizes.size() <= maxRank;
  Result<Tensor> made =
      isKept ? allocateKept(dtype, sizes, bytes) : allocateOnHost(dtype, sizes);
  // What a kernel reads of it without having written it is NaN.
  if (made && bytes > 0 && isCheckRequested("scratch"))
    std::memset(made->data, 0xff, static_cast<size_t>(bytes));
  return made;
}

static Status fillZero(void *, void *memory, int64_t bytes) {
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return {};
}

static Status copy(void *, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

static Result<Session> begin(void *) {
  auto end = [](void *scratch) {
    ScratchPool::get().give(
        std::unique_ptr<Scratch>(static_cast<Scratch *>(scratch)));
  };
  return Session(ScratchPool::get().take().release(), end);
}

Device sextant::runtime::makeHostDevice(const char *name,
                                        decltype(Device::allocate) allocate,
                                        decltype(Device::launch) launch) {
  return {.name = name,
          .state = nullptr,
          .hasHostMemory = true,
          .allocate = allocate,
          .allocateTemporary = allocateTemporary,
          .fillZero = fillZero,
          .copy = copy,
          .copyIn = copy,
          .copyOut = copy,
          .runs = nullptr,
          .loadCode = nullptr,
          .begin = begin,
          .isCaptured = nullptr,
          .launch = launch,
          .defer = nullptr,
          .mark = nullptr,
          .getTime = nullptr,
          .getPeak = nullptr,
          .resolve = nullptr,
          .call = nullptr};
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// What the workers of one launch share.
struct LaunchContext {
  HostFunction run;
  const int64_t *arguments;
  const Scratch &scratch;
  ItemRanges items;
};
} // namespace

static void runWorker(void *opaque, int64_t worker) {
  auto &context = *static_cast<LaunchContext *>(opaque);
  for (;;) {
    auto [begin, end] = context.items.take();
    if (begin == end)
      return;
    context.run(context.arguments, begin, end, context.scratch.get(worker));
  }
}

Result<int64_t>
sextant::runtime::launchOnHost(void *session, const Kernel &kernel,
                               std::span<const int64_t> arguments,
                               const HostThreads &threads) {
  auto &scratch = *static_cast<Scratch *>(session);
  HostFunction run = std::get<HostFunction>(kernel.code);
  int64_t items = kernel.items(arguments.data());
  if (items < 0)
    return makeError("the kernel counts ", items, " work items");
  if (items == 0)
    return items;
  int64_t bytes = kernel.scratch(arguments.data());
  if (bytes < 0)
    return makeError("the kernel asks for ", bytes, " bytes of scratch");
  int64_t workers = std::clamp<int64_t>(threads.count(), 1, items);
  // What the emulator checks of items that follow each other is to depend on
  // their numbers alone.
  if (kernel.takeFailure && isCheckRequested("races"))
    workers = 1;
  if (Status status = scratch.reserve(workers, std::max<int64_t>(bytes, 64));
      !status)
    return status.error();
  // What a kernel reads of it without having written it is NaN.
  if (isCheckRequested("scratch"))
    scratch.poison();
  if (workers == 1) {
    run(arguments.data(), 0, items, scratch.get(0));
  } else {
    int64_t together = kernel.together ? kernel.together(arguments.data()) : 1;
    LaunchContext context{run, arguments.data(), scratch,
                          ItemRanges(items, workers, together)};
    if (Status status = threads.run(workers, runWorker, &context); !status)
      return status.error();
  }
  if (kernel.takeFailure)
    if (Status status = kernel.takeFailure(); !status)
      return status.error();
  return items;
}
