//===- Gpu.cpp - A GPU, and the code that it runs -------------------------===//
//
// Code is loaded as a library of the driver, and its entries are looked up in
// the primary context, so that a launch loads nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Gpu.h"
#include <charconv>

using namespace sextant::runtime;
using namespace sextant::runtime::cuda;

std::optional<Architecture> Architecture::parse(std::string_view text) {
  constexpr std::string_view prefix = "sm_";
  if (!text.starts_with(prefix))
    return std::nullopt;
  const char *end = text.data() + text.size();
  int number = 0;
  auto [rest, error] =
      std::from_chars(text.data() + prefix.size(), end, number);
  bool exact = rest + 1 == end && *rest == 'a';
  if (error != std::errc() || number < 10 || !(rest == end || exact))
    return std::nullopt;
  return Architecture{number / 10, number % 10, exact};
}

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

Result<Gpu> Gpu::open(const Driver &driver, int index) {
  int count = 0;
  if (Status status =
          driver.check(driver.deviceGetCount(&count), "cuDeviceGetCount");
      !status)
    return status.error();
  if (index < 0 || index >= count)
    return makeError("there is no CUDA device ", index, ": this process has ",
                     count, " (see CUDA_VISIBLE_DEVICES)");
  int device = 0;
  if (Status status =
          driver.check(driver.deviceGet(&device, index), "cuDeviceGet");
      !status)
    return status.error();
  Gpu gpu{&driver, index, nullptr, "", {}, 0};
  char name[256] = "";
  if (Status status = driver.check(
          driver.deviceGetName(name, sizeof(name), device), "cuDeviceGetName");
      !status)
    return status.error();
  gpu.name = name;
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR,
  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT and
  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN.
  for (auto [attribute, value] :
       {std::pair{75, &gpu.architecture.generation},
        std::pair{76, &gpu.architecture.revision},
        std::pair{16, &gpu.multiprocessors}, std::pair{97, &gpu.sharedBytes}})
    if (Status status =
            driver.check(driver.deviceGetAttribute(value, attribute, device),
                         "cuDeviceGetAttribute");
        !status)
      return status.error();
  if (Status status =
          driver.check(driver.devicePrimaryCtxRetain(&gpu.context, device),
                       "cuDevicePrimaryCtxRetain");
      !status)
    return status.error();
  return gpu;
}

/// Multiply-adds of f32 that a multiprocessor does in a cycle: 64 where the
/// generation says, else 128 (the programming guide's table of throughputs).
static double getUnits(const Architecture &architecture) {
  return architecture.generation == 8 && architecture.revision == 0 ? 64.0
                                                                    : 128.0;
}

Result<DevicePeak> Gpu::getPeak() const {
  int device = 0, clock = 0, memoryClock = 0, width = 0;
  Status status =
      driver->check(driver->deviceGet(&device, index), "cuDeviceGet");
  // CU_DEVICE_ATTRIBUTE_CLOCK_RATE and MEMORY_CLOCK_RATE, in kHz, and
  // GLOBAL_MEMORY_BUS_WIDTH, in bits.
  for (auto [attribute, value] :
       {std::pair{13, &clock}, std::pair{36, &memoryClock},
        std::pair{37, &width}})
    if (status)
      status =
          driver->check(driver->deviceGetAttribute(value, attribute, device),
                        "cuDeviceGetAttribute");
  if (!status)
    return status.error();
  // A multiply-add is two operations; memory moves a word per edge of its
  // clock.
  return DevicePeak{2.0 * getUnits(architecture) * multiprocessors * clock *
                        1e3,
                    2.0 * memoryClock * 1e3 * width / 8.0};
}

bool Gpu::runs(const Object &object) const {
  std::optional<Architecture> made = Architecture::parse(object.architecture);
  if (!made)
    return false;
  bool sameGeneration = made->generation == architecture.generation;
  bool sameRevision = made->revision == architecture.revision;
  if (made->exact)
    return sameGeneration && sameRevision;
  bool laterRevision =
      sameGeneration && made->revision <= architecture.revision;
  if (object.kind == ObjectKind::Cubin)
    return laterRevision;
  return object.kind == ObjectKind::Ptx &&
         (laterRevision || made->generation < architecture.generation);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

namespace {

/// A library of the driver. It lives as long as the process: what has been
/// launched may still run when its program goes.
struct LoadedLibrary : DeviceCode {
  LoadedLibrary(const Gpu &gpu, Library library) : gpu(gpu), library(library) {}

  Result<DeviceFunction> find(const std::string &kernel) const override {
    const Driver &driver = *gpu.driver;
    CurrentContext current(driver, gpu.context);
    LibraryKernel found = nullptr;
    Entry entry = nullptr;
    Status status = current.getStatus();
    if (status)
      status =
          driver.check(driver.libraryGetKernel(&found, library, kernel.c_str()),
                       "cuLibraryGetKernel");
    if (status)
      status = driver.check(driver.kernelGetFunction(&entry, found),
                            "cuKernelGetFunction");
    if (!status)
      return status.error().in("kernel '" + kernel + "'");
    return DeviceFunction{entry};
  }

  const Gpu &gpu;
  Library library;
};

} // namespace

Result<std::unique_ptr<DeviceCode>> Gpu::load(const Object &object) const {
  CurrentContext current(*driver, context);
  if (Status status = current.getStatus(); !status)
    return status.error();
  // PTX ends with a zero. What the driver's compiler finds goes to the log:
  // CU_JIT_ERROR_LOG_BUFFER and its size, which is passed as the pointer.
  std::string code(reinterpret_cast<const char *>(object.code.data()),
                   object.code.size());
  char log[4096] = "";
  int options[] = {5, 6};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  Library library = nullptr;
  bool isCompiled = object.kind == ObjectKind::Ptx;
  Status status = driver->check(
      driver->libraryLoadData(&library, code.c_str(), options, values,
                              isCompiled ? 2 : 0, nullptr, nullptr, 0),
      "cuLibraryLoadData");
  log[sizeof(log) - 1] = '\0';
  if (!status)
    return makeError(status.error().message(),
                     *log ? "; the driver says: " : "", std::string(log));
  return std::unique_ptr<DeviceCode>(
      std::make_unique<LoadedLibrary>(*this, library));
}
