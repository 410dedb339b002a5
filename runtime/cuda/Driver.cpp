//===- Driver.cpp - Opens the CUDA driver ---------------------------------===//
//
// The version is asked before anything else is looked up, so that the error of
// an old driver is its age and not a symbol that it lacks.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Driver.h"
#include <cstdlib>
#include <dlfcn.h>

using namespace sextant::runtime;
using namespace sextant::runtime::cuda;

/// Of CUDA, times 1000: the first with libraries that belong to no context.
static constexpr int leastVersion = 12000;

/// What a failure asks the user to do; "" where its name says all.
static const char *getCure(int code) {
  switch (code) {
  case 2: // CUDA_ERROR_OUT_OF_MEMORY
    return ": free memory of the device, or take a smaller batch";
  case 200: // CUDA_ERROR_INVALID_IMAGE
  case 209: // CUDA_ERROR_NO_BINARY_FOR_GPU
  case 218: // CUDA_ERROR_INVALID_PTX
  case 222: // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    return ": update NVIDIA's driver, or compile the model for this device";
  case 900: // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    return ": run the program once before a CUDA graph captures it";
  case 700: // CUDA_ERROR_ILLEGAL_ADDRESS
  case 702: // CUDA_ERROR_LAUNCH_TIMEOUT
  case 710: // CUDA_ERROR_ASSERT
  case 714: // CUDA_ERROR_HARDWARE_STACK_ERROR
  case 715: // CUDA_ERROR_ILLEGAL_INSTRUCTION
  case 716: // CUDA_ERROR_MISALIGNED_ADDRESS
  case 717: // CUDA_ERROR_INVALID_ADDRESS_SPACE
  case 718: // CUDA_ERROR_INVALID_PC
  case 719: // CUDA_ERROR_LAUNCH_FAILED
    return ": a kernel has faulted, this one or one before it, and CUDA does "
           "no more work in this process; start it again with SEXTANT_CHECK="
           "now to see which";
  default:
    return "";
  }
}

Status Driver::check(int code, const char *call) const {
  if (code == 0)
    return {};
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(code, &name) != 0 || !name)
    return makeError(call, ": the CUDA driver's error ", code);
  if (getErrorString(code, &text) != 0 || !text)
    return makeError(call, ": ", name, getCure(code));
  return makeError(call, ": ", name, " (", text, ")", getCure(code));
}

Result<std::unique_ptr<const Driver>> Driver::open(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return makeError("there is no CUDA driver: dlopen: ", dlerror(),
                     "; install NVIDIA's driver, or use the CPU");
  auto driver = std::make_unique<Driver>();
  auto find = [&](auto &field, const char *symbol) {
    field =
        reinterpret_cast<std::decay_t<decltype(field)>>(dlsym(handle, symbol));
    return field != nullptr;
  };
  int version = 0;
  if (!find(driver->driverGetVersion, "cuDriverGetVersion") ||
      driver->driverGetVersion(&version) != 0)
    return makeError(library, " is no CUDA driver: it does not tell its "
                              "version (cuDriverGetVersion)");
  if (version < leastVersion)
    return makeError("the CUDA driver ", library, " is of CUDA ",
                     version / 1000, ".", version % 1000 / 10,
                     ", but programs need that of CUDA ", leastVersion / 1000,
                     ".", leastVersion % 1000 / 10,
                     " or later: update NVIDIA's driver");
#define SEXTANT_CUDA_FUNCTION(field, symbol, parameters)                       \
  if (!find(driver->field, symbol))                                            \
    return makeError("the CUDA driver ", library, " has no function ", symbol, \
                     ": install NVIDIA's driver again");
#include "runtime/cuda/DriverFunctions.inc"
#undef SEXTANT_CUDA_FUNCTION
  if (Status status = driver->check(driver->init(0), "cuInit"); !status)
    return status.error();
  return std::unique_ptr<const Driver>(std::move(driver));
}

Result<const Driver *> Driver::get() {
  static const Result<std::unique_ptr<const Driver>> driver = [] {
    const char *other = std::getenv("SEXTANT_CUDA_DRIVER");
    return open(other && *other ? other : "libcuda.so.1");
  }();
  if (!driver)
    return driver.error();
  return driver->get();
}
