//===- CudaLaunch.cpp - Launches of kernels on a GPU ----------------------===//
//
// A launch of warps has several times as many as fill the GPU, so that those
// whose items take long do not keep the others waiting, and fewer where there
// are fewer items, or where their scratch memory would take much room. One of
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
/// Of warps that run at a time: a backward of scores of 16 heads has about a
/// megabyte for each. Of warps that wait for their turn there is less.
static constexpr int64_t mostScratch = int64_t(1) << 30;
static constexpr int64_t mostScratchInTurn = int64_t(64) << 20;
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

static Result<unsigned> getSharedBytes(const Gpu &gpu, const Kernel &kernel,
                                       const int64_t *arguments) {
  if (!kernel.shared)
    return 0u;
  int64_t shared = kernel.shared(arguments);
  if (shared > gpu.sharedBytes)
    return makeError("the kernel needs ", shared,
                     " bytes of shared memory for a block, of which ", gpu.name,
                     " has ", gpu.sharedBytes,
                     ": compile it for cuda:sm_86, whose blocks take less, or "
                     "run it in f32 or on a GPU that has more");
  return static_cast<unsigned>(shared);
}

/// Larger blocks run one item at a time.
static Result<Geometry> spreadBlocks(const Kernel &kernel,
                                     const int64_t *arguments, int64_t items,
                                     unsigned shared, int64_t scratch) {
  if (items > mostBlocks)
    return makeError("the kernel has ", items,
                     " work items, of which a GPU runs ", mostBlocks,
                     " in one launch: cut the batch");
  return Geometry{static_cast<unsigned>(items),
                  static_cast<unsigned>(kernel.threads(arguments)), shared,
                  scratch};
}

/// Warps that follow one another in the place of one that runs.
static constexpr int64_t warpsInTurn = 4;

/// As many warps as the GPU runs at a time, by their registers and their shared
/// memory, up to 32 on a multiprocessor: what waits for memory needs them all.
/// Items that are neighbours may take long, all of them, such as sums behind a
/// launch that they are merged with, so warps have few of them.
static Result<Geometry> spreadWarps(const Gpu &gpu, Entry entry, int64_t items,
                                    unsigned shared, int64_t scratch) {
  int64_t warps = items;
  if (items > gpu.multiprocessors) {
    int resident = 0;
    if (Status status =
            gpu.driver->check(gpu.driver->countResidentBlocks(
                                  &resident, entry, warpThreads, shared),
                              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        !status)
      return status.error();
    int64_t most = int64_t(std::max(resident, 1)) * gpu.multiprocessors;
    if (warpsInTurn * most * scratch <= mostScratchInTurn)
      most *= warpsInTurn;
    warps = std::min(items, most);
  }
  if (scratch > 0)
    warps = std::clamp<int64_t>(mostScratch / scratch, 1, warps);
  return Geometry{static_cast<unsigned>(warps), warpThreads, shared, scratch};
}

/// Of `items` > 0. `scratch` is what a block asks for.
static Result<Geometry> spread(const Gpu &gpu, const Kernel &kernel,
                               Entry entry, const int64_t *arguments,
                               int64_t items, int64_t scratch) {
  Result<unsigned> shared = getSharedBytes(gpu, kernel, arguments);
  if (!shared)
    return shared.error();
  int64_t bytes = (scratch + scratchUnit - 1) / scratchUnit * scratchUnit;
  return kernel.threads ? spreadBlocks(kernel, arguments, items, *shared, bytes)
                        : spreadWarps(gpu, entry, items, *shared, bytes);
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
  auto *entry = static_cast<Entry>(std::get<DeviceFunction>(kernel.code).entry);
  Result<Geometry> found =
      spread(cuda.gpu, kernel, entry, arguments.data(), items, asked);
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
