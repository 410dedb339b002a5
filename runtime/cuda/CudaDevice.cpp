//===- CudaDevice.cpp - A GPU as a device of the runtime ------------------===//
//
// Each operation makes the context current, since any thread may ask, and goes
// to the stream of the moment.
//
//===----------------------------------------------------------------------===//

#include "runtime/Checks.h"
#include "runtime/cuda/CudaRun.h"
#include <algorithm>
#include <map>
#include <mutex>

using namespace sextant::runtime;
using namespace sextant::runtime::cuda;

/// Calls work(stream) with the context current.
template <typename Work> static Status onStream(void *state, Work work) {
  CudaDevice &cuda = getCuda(state);
  CurrentContext current(*cuda.gpu.driver, cuda.gpu.context);
  if (Status status = current.getStatus(); !status)
    return status;
  Result<Stream> stream = cuda.resources.getStream(state);
  if (!stream)
    return stream.error();
  return work(*cuda.gpu.driver, *stream);
}

static Status wait(const Driver &driver, Stream stream) {
  return driver.check(driver.streamSynchronize(stream), "cuStreamSynchronize");
}

static Address toAddress(const void *memory) {
  return reinterpret_cast<Address>(memory);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Result<Tensor> allocate(void *state, DType dtype,
                               std::span<const int64_t> sizes) {
  int64_t count = countElements(dtype, sizes);
  if (count < 0 || sizes.size() > maxRank)
    return makeError("a tensor cannot have the shape ", formatShape(sizes));
  auto bytes =
      static_cast<size_t>(std::max<int64_t>(count * getByteSize(dtype), 1));
  Address address = 0;
  Status status = onStream(state, [&](const Driver &driver, Stream stream) {
    return driver.check(driver.memAllocAsync(&address, bytes, stream),
                        "cuMemAllocAsync");
  });
  if (!status)
    return status.error().in("a tensor of shape " + formatShape(sizes) + " (" +
                             std::to_string(bytes) + " bytes)");
  Tensor tensor;
  tensor.data = reinterpret_cast<void *>(address);
  tensor.dtype = dtype;
  tensor.setShape(sizes);
  // Nobody can be told where giving it back fails, after a fault.
  tensor.owner = {
      tensor.data, [state](void *memory) {
        (void)onStream(state, [&](const Driver &driver, Stream stream) {
          return driver.check(driver.memFreeAsync(toAddress(memory), stream),
                              "cuMemFreeAsync");
        });
      }};
  return tensor;
}

static Status fillZero(void *state, void *memory, int64_t bytes) {
  return onStream(state, [&](const Driver &driver, Stream stream) {
    return driver.check(driver.memsetBytes(toAddress(memory), 0,
                                           static_cast<size_t>(bytes), stream),
                        "cuMemsetD8Async");
  });
}

static Status copy(void *state, void *to, const void *from, int64_t bytes) {
  return onStream(state, [&](const Driver &driver, Stream stream) {
    return driver.check(driver.memcpyOnDevice(toAddress(to), toAddress(from),
                                              static_cast<size_t>(bytes),
                                              stream),
                        "cuMemcpyDtoDAsync");
  });
}

static Status copyIn(void *state, void *to, const void *from, int64_t bytes) {
  return onStream(state, [&](const Driver &driver, Stream stream) -> Status {
    if (Status status = driver.check(
            driver.memcpyToDevice(toAddress(to), from,
                                  static_cast<size_t>(bytes), stream),
            "cuMemcpyHtoDAsync");
        !status)
      return status;
    return wait(driver, stream);
  });
}

static Status copyOut(void *state, void *to, const void *from, int64_t bytes) {
  return onStream(state, [&](const Driver &driver, Stream stream) -> Status {
    if (Status status = driver.check(
            driver.memcpyToHost(to, toAddress(from), static_cast<size_t>(bytes),
                                stream),
            "cuMemcpyDtoHAsync");
        !status)
      return status;
    if (Status status = wait(driver, stream); !status)
      return status;
    return getCuda(state).checks.look();
  });
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static bool runs(void *state, const Object &object) {
  return getCuda(state).gpu.runs(object);
}

static Result<std::unique_ptr<DeviceCode>> loadCode(void *state,
                                                    const Object &object) {
  return getCuda(state).gpu.load(object);
}

static Result<Session> begin(void *state) {
  CudaDevice &cuda = getCuda(state);
  const Driver &driver = *cuda.gpu.driver;
  std::unique_ptr<CudaRun> run(
      new CudaRun{{driver, cuda.gpu.context}, nullptr, false});
  if (Status status = run->current.getStatus(); !status)
    return status.error();
  Result<Stream> stream = cuda.resources.getStream(state);
  if (!stream)
    return stream.error();
  run->stream = *stream;
  int capture = 0;
  if (Status status =
          driver.check(driver.streamIsCapturing(run->stream, &capture),
                       "cuStreamIsCapturing");
      !status)
    return status.error();
  run->captured = capture != 0;
  if (Status status = cuda.checks.begin(); !status)
    return status.error();
  return Session(run.release(),
                 [](void *run) { delete static_cast<CudaRun *>(run); });
}

static bool isCaptured(void *session) { return getRun(session).captured; }

Status sextant::runtime::cuda::waitIfAsked(const Driver &driver,
                                           const CudaRun &run) {
  if (run.captured || !isCheckRequested("now"))
    return {};
  return wait(driver, run.stream);
}

static Status defer(void *state, void *session, const DataCheck &check) {
  CudaDevice &cuda = getCuda(state);
  const CudaRun &run = getRun(session);
  if (Status status = cuda.checks.add(run.stream, check, run.captured); !status)
    return status;
  if (run.captured || !isCheckRequested("now"))
    return {};
  if (Status status = wait(*cuda.gpu.driver, run.stream); !status)
    return status;
  return cuda.checks.look();
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static Result<std::shared_ptr<void>> mark(void *state, void *session) {
  const Gpu &gpu = getCuda(state).gpu;
  const Driver &driver = *gpu.driver;
  Event event = nullptr;
  if (Status status =
          driver.check(driver.eventCreate(&event, 0), "cuEventCreate");
      !status)
    return status.error();
  std::shared_ptr<void> owner(event, [&gpu](void *event) {
    // A profile keeps marks beyond its run, whose context was current.
    CurrentContext current(*gpu.driver, gpu.context);
    gpu.driver->eventDestroy(static_cast<Event>(event));
  });
  if (Status status = driver.check(
          driver.eventRecord(event, getRun(session).stream), "cuEventRecord");
      !status)
    return status.error();
  return owner;
}

static Result<DevicePeak> getPeak(void *state) {
  return getCuda(state).gpu.getPeak();
}

static Result<int64_t> getTime(void *state, void *from, void *to) {
  const Driver &driver = *getCuda(state).gpu.driver;
  auto *last = static_cast<Event>(to);
  float milliseconds = 0.0f;
  Status status =
      driver.check(driver.eventSynchronize(last), "cuEventSynchronize");
  if (status)
    status = driver.check(
        driver.eventElapsedTime(&milliseconds, static_cast<Event>(from), last),
        "cuEventElapsedTime");
  if (!status)
    return status.error();
  return static_cast<int64_t>(double(milliseconds) * 1e6);
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(Gpu given, CudaResources resources)
    : gpu(std::move(given)), resources(resources), checks(*gpu.driver),
      name("cuda:" + std::to_string(gpu.index) + " (" + gpu.name + ", sm_" +
           std::to_string(gpu.architecture.generation) +
           std::to_string(gpu.architecture.revision) + ")"),
      device{.name = name.c_str(),
             .state = this,
             .hasHostMemory = false,
             .allocate = resources.allocate,
             .allocateTemporary = nullptr,
             .fillZero = fillZero,
             .copy = copy,
             .copyIn = copyIn,
             .copyOut = copyOut,
             .runs = runs,
             .loadCode = loadCode,
             .begin = begin,
             .isCaptured = isCaptured,
             .launch = launchOnGpu,
             .defer = defer,
             .mark = mark,
             .getTime = getTime,
             .getPeak = getPeak,
             .resolve = nullptr,
             .call = nullptr} {}

Result<std::unique_ptr<CudaDevice>>
sextant::runtime::cuda::makeOwnDevice(const Driver &driver, int index) {
  Result<Gpu> gpu = Gpu::open(driver, index);
  if (!gpu)
    return gpu.error();
  CudaResources resources{allocate, [](void *state) -> Result<Stream> {
                            return getCuda(state).ownStream;
                          }};
  auto made = std::make_unique<CudaDevice>(std::move(*gpu), resources);
  CurrentContext current(driver, made->gpu.context);
  if (Status status = current.getStatus(); !status)
    return status.error();
  constexpr unsigned nonBlocking = 1; // CU_STREAM_NON_BLOCKING
  if (Status status = driver.check(
          driver.streamCreate(&made->ownStream, nonBlocking), "cuStreamCreate");
      !status)
    return status.error();
  return made;
}

Result<const Device *> sextant::runtime::cuda::getCudaDevice(int index) {
  static std::mutex mutex;
  // Never destroyed: threads may outlive static objects.
  static auto *devices = new std::map<int, std::unique_ptr<CudaDevice>>;
  Result<const Driver *> driver = Driver::get();
  if (!driver)
    return driver.error();
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaDevice> &device = (*devices)[index];
  if (!device) {
    Result<std::unique_ptr<CudaDevice>> made = makeOwnDevice(**driver, index);
    if (!made)
      return made.error();
    device = std::move(*made);
  }
  return &device->device;
}
