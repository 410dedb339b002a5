//===- CudaLaunch.cpp - Launches of kernels on a GPU ----------------------===//
//
// A launch of warps has as many as fill the GPU, and fewer where there are
// fewer items, or where their scratch memory would take too much room. One of
// larger blocks has a block per item. Its scratch memory is free again, in the
// order of the stream, when the launch has been given to the driver.
//
//===----------------------------------------------------------------------===//

#include "runtime/Checks.h"
#include "runtime/cuda/CudaRun.h"
#include <algorithm>

using namespace sextant::runtime;
using namespace sextant::runtime::cuda;

/// Threads of a warp.
static constexpr unsigned warpThreads = 32;
/// Enough to hide the latency of memory, for kernels of any number of
/// registers.
static constexpr int64_t warpsPerMultiprocessor = 8;
static constexpr int64_t mostScratch = int64_t(256) << 20;
static constexpr int64_t scratchUnit = 256;
/// Blocks of a launch, along the first axis.
static constexpr int64_t mostBlocks = INT32_MAX;
/// Shared memory that a launch has without being allowed more.
static constexpr int64_t plainShared = int64_t(48) << 10;
/// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
static constexpr int sharedAttribute = 8;

namespace {
/// How a kernel is spread over the GPU.
struct Geometry {
  unsigned blocks, threads, sharedBytes;
  int64_t scratchBytes; ///< per block
};
} // namespace

/// Of `items` > 0. `scratch` is what a warp asks for.
static Geometry spreadWarps(const Gpu &gpu, int64_t items, int64_t scratch) {
  int64_t bytes = (scratch + scratchUnit - 1) / scratchUnit * scratchUnit;
  int64_t warps = std::min(items, warpsPerMultiprocessor * gpu.multiprocessors);
  if (bytes > 0)
    warps = std::clamp<int64_t>(mostScratch / bytes, 1, warps);
  return {static_cast<unsigned>(warps), warpThreads, 0, bytes};
}

/// Of warps, or of larger blocks, which run one item at a time.
static Result<Geometry> spread(const Gpu &gpu, const Kernel &kernel,
                               const int64_t *arguments, int64_t items,
                               int64_t scratch) {
  Geometry geometry = spreadWarps(gpu, items, scratch);
  if (kernel.threads) {
    if (items > mostBlocks)
      return makeError("the kernel has ", items,
                       " work items, of which a GPU runs ", mostBlocks,
                       " in one launch: cut the batch");
    geometry.blocks = static_cast<unsigned>(items);
    geometry.threads = static_cast<unsigned>(kernel.threads(arguments));
  }
  if (!kernel.shared)
    return geometry;
  int64_t shared = kernel.shared(arguments);
  if (shared > gpu.sharedBytes)
    return makeError("the kernel needs ", shared,
                     " bytes of shared memory for a block, of which ", gpu.name,
                     " has ", gpu.sharedBytes,
                     ": run it in f32, with smaller head dims, or on a GPU "
                     "that has more");
  geometry.sharedBytes = static_cast<unsigned>(shared);
  return geometry;
}

Result<int64_t>
sextant::runtime::cuda::launchOnGpu(void *state, void *session,
                                    const Kernel &kernel,
                                    std::span<const int64_t> arguments) {
  CudaDevice &cuda = getCuda(state);
  const Driver &driver = *cuda.gpu.driver;
  const CudaRun &run = getRun(session);
  int64_t items = kernel.items(arguments.data());
  if (items < 0)
    return makeError("the kernel counts ", items, " work items");
  if (items == 0)
    return items;
  int64_t asked = kernel.scratch(arguments.data());
  if (asked < 0 || asked > INT64_MAX / 2)
    return makeError("the kernel asks for ", asked, " bytes of scratch");
  Result<Geometry> found =
      spread(cuda.gpu, kernel, arguments.data(), items, asked);
  if (!found)
    return found.error();
  Geometry &geometry = *found;
  Tensor scratch;
  if (geometry.scratchBytes > 0) {
    int64_t bytes[] = {geometry.blocks * geometry.scratchBytes};
    Result<Tensor> memory = cuda.resources.allocate(state, DType::U8, bytes);
    if (!memory)
      return memory.error().in("scratch memory of " + std::to_string(bytes[0]) +
                               " bytes");
    scratch = std::move(*memory);
    // What a kernel reads of it without having written it is NaN.
    if (isCheckRequested("scratch"))
      if (Status status = driver.check(
              driver.memsetBytes(reinterpret_cast<Address>(scratch.data), 0xff,
                                 static_cast<size_t>(bytes[0]), run.stream),
              "cuMemsetD8Async");
          !status)
        return status.error();
  }
  // The driver copies each parameter, as many bytes as the entry declares.
  void *parameters[] = {const_cast<int64_t *>(arguments.data()), &items,
                        &scratch.data, &geometry.scratchBytes};
  auto *entry = static_cast<Entry>(std::get<DeviceFunction>(kernel.code).entry);
  Status status;
  if (geometry.sharedBytes > plainShared)
    status = driver.check(
        driver.funcSetAttribute(entry, sharedAttribute,
                                static_cast<int>(geometry.sharedBytes)),
        "cuFuncSetAttribute");
  if (status)
    status = driver.check(driver.launchKernel(entry, geometry.blocks, 1, 1,
                                              geometry.threads, 1, 1,
                                              geometry.sharedBytes, run.stream,
                                              parameters, nullptr),
                          "cuLaunchKernel");
  if (status)
    status = waitIfAsked(driver, run);
  if (!status)
    return status.error();
  return items;
}
