//===- StubDriver.cpp - A CUDA driver without a GPU -----------------------===//
//
// A shared object of its own, which the runtime opens as it opens the driver.
// Numbers of errors are those of the driver.
//
//===----------------------------------------------------------------------===//

#include "StubDriver.h"
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

using sextant::test::StubBlock, sextant::test::StubDriver;

static constexpr int invalidValue = 1, outOfMemory = 2, invalidImage = 200,
                     invalidContext = 201, notFound = 500,
                     captureUnsupported = 900;

static constexpr int invalidPtx = 218;

namespace {
struct Library;
struct Kernel {
  std::string name;
  const Library *library = nullptr;
  unsigned sharedBytes = 48 << 10; ///< that a launch may have
};
struct Library {
  bool isReal; ///< of a compiler: has any kernel, and none does anything
  int refusal; ///< what the driver says when it comes to the code
  char *log;   ///< of the driver's compiler, if it has one
  std::map<std::string, Kernel> kernels;

  int read() const {
    if (refusal != 0 && log)
      std::strcpy(log, "line 1: no stub");
    return refusal;
  }
};
struct Event {
  int64_t place; ///< in the log
};
struct HeldCopy {
  void *to;
  std::string bytes; ///< as they were in the order of the work
};
} // namespace

static std::vector<HeldCopy> heldCopies;
static std::map<unsigned long long, size_t> allocations;
/// Contexts that the thread has made current.
static thread_local int contexts = 0;
/// How a thread takes captures: a CUstreamCaptureMode.
static constexpr int relaxedMode = 2;
static thread_local int captureMode = 0;

extern "C" StubDriver *sextantStubDriver() {
  static StubDriver driver;
  return &driver;
}

static StubDriver &get() { return *sextantStubDriver(); }

/// The error that a call is to give.
static int getFailure(const char *name) {
  return get().failing == name ? get().failure : 0;
}

/// Notes a call; the error that it is to give.
static int note(const char *name) {
  get().log.push_back(name);
  return getFailure(name);
}

/// Of a call that is no part of a graph.
static bool isForbidden() {
  return get().capturing && captureMode != relaxedMode;
}

/// Of a call that is one of the context which is current.
static int noteInContext(const char *name) {
  int failure = note(name);
  return contexts > 0 ? failure : invalidContext;
}

static int noteWait(const char *name) {
  int code = noteInContext(name);
  if (get().capturing)
    return captureUnsupported;
  ++get().waits;
  for (const HeldCopy &copy : heldCopies)
    std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
  heldCopies.clear();
  return code;
}

// Where the driver's symbols have the number of a version.
extern "C" {
int cuCtxPushCurrent(void *) __asm__("cuCtxPushCurrent_v2");
int cuCtxPopCurrent(void **) __asm__("cuCtxPopCurrent_v2");
int cuMemcpyHtoDAsync(unsigned long long, const void *, size_t,
                      void *) __asm__("cuMemcpyHtoDAsync_v2");
int cuMemcpyDtoHAsync(void *, unsigned long long, size_t,
                      void *) __asm__("cuMemcpyDtoHAsync_v2");
int cuMemcpyDtoDAsync(unsigned long long, unsigned long long, size_t,
                      void *) __asm__("cuMemcpyDtoDAsync_v2");
int cuEventDestroy(void *) __asm__("cuEventDestroy_v2");
}

extern "C" {

int cuInit(unsigned) { return note("cuInit"); }

int cuDriverGetVersion(int *version) {
  *version = get().version;
  return 0;
}

int cuGetErrorName(int code, const char **name) {
  static const std::map<int, const char *> names = {
      {invalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {invalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {invalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {invalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {notFound, "CUDA_ERROR_NOT_FOUND"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {captureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? 0 : invalidValue;
}

int cuGetErrorString(int code, const char **text) {
  *text = "what the stub says of it";
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = get().devices;
  return 0;
}

int cuDeviceGet(int *device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char *name, int bytes, int) {
  std::strncpy(name, "Stub GPU", static_cast<size_t>(bytes));
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75   ? get().generation
           : attribute == 76 ? get().revision
           : attribute == 16 ? get().multiprocessors
           : attribute == 13 ? 1500000 // kHz
           : attribute == 36 ? 1000000
           : attribute == 37 ? 4096 // bits
           : attribute == 97 ? get().sharedBytes
                             : 0;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int) {
  static int primary;
  *context = &primary;
  return note("cuDevicePrimaryCtxRetain");
}

int cuCtxPushCurrent(void *) {
  ++contexts;
  return 0;
}
int cuCtxPopCurrent(void **) {
  if (contexts == 0)
    return invalidContext;
  --contexts;
  return 0;
}

int cuLibraryLoadData(void **library, const void *code, int *options,
                      void **values, unsigned count, int *, void **, unsigned) {
  if (int failure = note("cuLibraryLoadData"))
    return failure;
  if (isForbidden())
    return captureUnsupported;
  std::istringstream image(static_cast<const char *>(code));
  std::string name;
  image >> name;
  bool isReal = name.starts_with("\x7f"
                                 "ELF") ||
                name.starts_with("//");
  bool isCompiled = count > 0;
  int refusal = name == "stub" || isReal ? 0
                : isCompiled             ? invalidPtx
                                         : invalidImage;
  auto loaded = std::make_unique<Library>(
      isReal, refusal, isCompiled ? static_cast<char *>(values[0]) : nullptr);
  if (int refused = get().loadsLate ? 0 : loaded->read())
    return refused;
  while (!isReal && image >> name)
    loaded->kernels[name] = {name, loaded.get()};
  *library = loaded.release();
  return 0;
}

int cuLibraryUnload(void *library) {
  delete static_cast<Library *>(library);
  return note("cuLibraryUnload");
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  auto &own = *static_cast<Library *>(library);
  if (own.isReal || own.refusal != 0) // whose names nobody has read
    own.kernels[name] = {name, &own};
  auto found = own.kernels.find(name);
  if (found == own.kernels.end())
    return notFound;
  *kernel = &found->second;
  return 0;
}

int cuKernelGetFunction(void **entry, void *kernel) {
  *entry = kernel;
  if (contexts == 0)
    return invalidContext;
  return isForbidden() ? captureUnsupported
                       : static_cast<Kernel *>(kernel)->library->read();
}

int cuFuncSetAttribute(void *entry, int attribute, int value) {
  if (attribute != 8 || value > get().sharedBytes)
    return invalidValue;
  static_cast<Kernel *>(entry)->sharedBytes = static_cast<unsigned>(value);
  return noteInContext("cuFuncSetAttribute");
}

/// A question that gives a GPU no work is not in the log.
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *,
                                                int threads,
                                                size_t sharedBytes) {
  if (threads <= 0 || sharedBytes > static_cast<size_t>(get().sharedBytes))
    return invalidValue;
  *blocks = get().residentBlocks;
  return getFailure("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}

int cuStreamCreate(void **stream, unsigned) {
  static int own;
  *stream = &own;
  return noteInContext("cuStreamCreate");
}

int cuStreamSynchronize(void *) { return noteWait("cuStreamSynchronize"); }

int cuStreamIsCapturing(void *, int *status) {
  *status = get().capturing;
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  std::swap(*mode, captureMode);
  return 0;
}

int cuLaunchKernel(void *entry, unsigned gridX, unsigned gridY, unsigned gridZ,
                   unsigned blockX, unsigned blockY, unsigned blockZ,
                   unsigned sharedBytes, void *, void **parameters, void **) {
  if (int code = noteInContext("cuLaunchKernel"))
    return code;
  const auto &[name, library, most] = *static_cast<Kernel *>(entry);
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX == 0 ||
      blockX % 32 != 0 || blockX > 1024 || blockY != 1 || blockZ != 1 ||
      sharedBytes > most)
    return invalidValue;
  get().log.back() += " " + name + " " + std::to_string(gridX);
  if (library->isReal)
    return 0;
  if (!get().kernels.contains(name))
    return invalidValue;
  StubBlock block{0,
                  gridX,
                  static_cast<int64_t *>(parameters[0]),
                  *static_cast<int64_t *>(parameters[1]),
                  *static_cast<char **>(parameters[2]),
                  *static_cast<int64_t *>(parameters[3]),
                  blockX,
                  sharedBytes};
  for (; block.block < block.blocks; ++block.block)
    get().kernels[name](block);
  return 0;
}

int cuMemAllocAsync(unsigned long long *address, size_t bytes, void *) {
  if (int code = noteInContext("cuMemAllocAsync"))
    return code;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xff, bytes); // what nobody wrote is NaN
  *address = reinterpret_cast<unsigned long long>(memory);
  allocations[*address] = bytes;
  get().liveBytes += static_cast<int64_t>(bytes);
  return 0;
}

int cuMemFreeAsync(unsigned long long address, void *) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return invalidValue;
  get().liveBytes -= static_cast<int64_t>(found->second);
  allocations.erase(found);
  std::free(reinterpret_cast<void *>(address));
  return noteInContext("cuMemFreeAsync");
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (isForbidden())
    return captureUnsupported;
  *memory = std::aligned_alloc(64, bytes);
  return noteInContext("cuMemHostAlloc");
}

int cuMemcpyHtoDAsync(unsigned long long to, const void *from, size_t bytes,
                      void *) {
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return noteInContext("cuMemcpyHtoDAsync");
}

int cuMemcpyDtoHAsync(void *to, unsigned long long from, size_t bytes, void *) {
  const auto *source = reinterpret_cast<const char *>(from);
  if (get().capturing)
    get().captured.push_back([=] { std::memcpy(to, source, bytes); });
  else if (get().holdsCopies)
    heldCopies.push_back({to, std::string(source, bytes)});
  else
    std::memcpy(to, source, bytes);
  return noteInContext("cuMemcpyDtoHAsync");
}

int cuMemcpyDtoDAsync(unsigned long long to, unsigned long long from,
                      size_t bytes, void *) {
  std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from),
              bytes);
  return noteInContext("cuMemcpyDtoDAsync");
}

int cuMemsetD8Async(unsigned long long memory, unsigned char value,
                    size_t bytes, void *) {
  std::memset(reinterpret_cast<void *>(memory), value, bytes);
  return noteInContext("cuMemsetD8Async");
}

int cuEventCreate(void **event, unsigned) {
  *event = new Event{0};
  ++get().liveEvents;
  return noteInContext("cuEventCreate");
}

int cuEventRecord(void *event, void *) {
  static_cast<Event *>(event)->place = static_cast<int64_t>(get().log.size());
  return noteInContext("cuEventRecord");
}

int cuEventSynchronize(void *) { return noteWait("cuEventSynchronize"); }

/// A millisecond for each call between.
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  *milliseconds = static_cast<float>(static_cast<Event *>(to)->place -
                                     static_cast<Event *>(from)->place);
  return 0;
}

int cuEventDestroy(void *event) {
  if (contexts == 0)
    return invalidContext;
  delete static_cast<Event *>(event);
  --get().liveEvents;
  return 0;
}

} // extern "C"
