//===- Gpu.cpp - A GPU, and the code that it runs -------------------------===//
//
// Code is loaded as a library of the driver, and its entries are looked up in
// the primary context, so that a launch loads nothing. That a library is there
// does not say that the driver takes its code: one that is lazy
// (CUDA_MODULE_LOADING, the default from CUDA 12.2 on) may come to it when an
// entry is looked up.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Gpu.h"
#include <charconv>
#include <deque>
#include <mutex>

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

/// What the driver's compiler is told of a text, and says of it.
struct CompilerOptions {
  /// CU_JIT_ERROR_LOG_BUFFER and its size, which is passed as the pointer: one
  /// byte less, so that the log has an end.
  int names[2] = {5, 6};
  void *values[2] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  char log[4096] = "";
};

} // namespace

/// The driver may read and write them whenever it comes to the library's code,
/// in any context, so that they live as long as the library: as the process.
static CompilerOptions &makeCompilerOptions() {
  static std::mutex mutex;
  static auto *made = new std::deque<CompilerOptions>; // never destroyed
  std::lock_guard lock(mutex);
  return made->emplace_back();
}

/// The error, with what the driver's compiler says, if it was asked.
static Error withLog(const Error &error, const CompilerOptions *compiler) {
  std::string said = compiler ? compiler->log : "";
  return said.empty() ? error
                      : makeError(error.message(), "; the driver says: ", said);
}

namespace {

/// A library of the driver. It lives as long as the process: what has been
/// launched may still run when its program goes.
struct LoadedLibrary : DeviceCode {
  /// `compiler`: null where the code is that of the GPU.
  LoadedLibrary(const Gpu &gpu, Library library,
                const CompilerOptions *compiler)
      : gpu(gpu), library(library), compiler(compiler) {}

  Result<DeviceFunction> find(const std::string &kernel) const override {
    const Driver &driver = *gpu.driver;
    CurrentContext current(driver, gpu.context);
    UncapturedCalls uncaptured(driver);
    LibraryKernel found = nullptr;
    Entry entry = nullptr;
    Status status = current.getStatus();
    if (status)
      status = uncaptured.getStatus();
    if (status)
      status =
          driver.check(driver.libraryGetKernel(&found, library, kernel.c_str()),
                       "cuLibraryGetKernel");
    if (status)
      status = driver.check(driver.kernelGetFunction(&entry, found),
                            "cuKernelGetFunction");
    if (!status)
      return withLog(status.error(), compiler).in("kernel '" + kernel + "'");
    return DeviceFunction{entry};
  }

  const Gpu &gpu;
  Library library;
  const CompilerOptions *compiler;
};

} // namespace

Result<std::unique_ptr<DeviceCode>> Gpu::load(const Object &object) const {
  CurrentContext current(*driver, context);
  if (Status status = current.getStatus(); !status)
    return status.error();
  UncapturedCalls uncaptured(*driver);
  if (Status status = uncaptured.getStatus(); !status)
    return status.error();
  // PTX ends with a zero.
  std::string code(reinterpret_cast<const char *>(object.code.data()),
                   object.code.size());
  CompilerOptions *compiler =
      object.kind == ObjectKind::Ptx ? &makeCompilerOptions() : nullptr;
  Library library = nullptr;
  Status status = driver->check(
      driver->libraryLoadData(&library, code.c_str(),
                              compiler ? compiler->names : nullptr,
                              compiler ? compiler->values : nullptr,
                              compiler ? 2 : 0, nullptr, nullptr, 0),
      "cuLibraryLoadData");
  if (!status)
    return withLog(status.error(), compiler);
  return std::unique_ptr<DeviceCode>(
      std::make_unique<LoadedLibrary>(*this, library, compiler));
}
