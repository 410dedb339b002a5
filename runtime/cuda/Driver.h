//===- Driver.h - The functions of the CUDA driver --------------*- C++ -*-===//
//
// The driver is a library of the machine, opened with dlopen: nothing of CUDA
// is needed to build. Its functions are a table (DriverFunctions.inc), resolved
// once. The variable SEXTANT_CUDA_DRIVER names another library.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CUDA_DRIVER_H
#define SEXTANT_RUNTIME_CUDA_DRIVER_H

#include "runtime/Result.h"
#include <cstddef>
#include <memory>

namespace sextant::runtime::cuda {

/// Handles of the driver.
using Context = struct ContextHandle *;
using Library = struct LibraryHandle *;
using LibraryKernel = struct LibraryKernelHandle *;
using Entry = struct EntryHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
/// An address in the memory of a device.
using Address = unsigned long long;

/// The driver of this machine, initialised.
struct Driver {
  // NOLINTBEGIN(bugprone-macro-parentheses): declarators, no expressions.
#define SEXTANT_CUDA_FUNCTION(field, symbol, parameters)                       \
  int(*field) parameters = nullptr;
#include "runtime/cuda/DriverFunctions.inc"
#undef SEXTANT_CUDA_FUNCTION
  // NOLINTEND(bugprone-macro-parentheses)

  /// An error with the driver's name of a failure, and what to do about it.
  /// `call` is the function that gave `code`.
  Status check(int code, const char *call) const;

  /// Opens a driver, which stays open. An error where there is none, or one
  /// that is too old.
  static Result<std::unique_ptr<const Driver>> open(const char *library);
  /// That of the machine, opened when it is asked for first.
  static Result<const Driver *> get();
};

/// Makes a context current, for the time that this lives.
class CurrentContext {
public:
  CurrentContext(const Driver &driver, Context context)
      : driver(driver), code(driver.ctxPushCurrent(context)) {}
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext() {
    Context before;
    if (code == 0)
      driver.ctxPopCurrent(&before);
  }

  Status getStatus() const { return driver.check(code, "cuCtxPushCurrent"); }

private:
  const Driver &driver;
  int code;
};

/// For the time that this lives, the thread makes calls that are no part of a
/// CUDA graph, such as for memory of the host. Else they are errors while any
/// thread captures one, and end that capture.
class UncapturedCalls {
public:
  explicit UncapturedCalls(const Driver &driver)
      : driver(driver), code(driver.exchangeCaptureMode(&mode)) {}
  UncapturedCalls(const UncapturedCalls &) = delete;
  UncapturedCalls &operator=(const UncapturedCalls &) = delete;
  ~UncapturedCalls() {
    if (code == 0)
      driver.exchangeCaptureMode(&mode);
  }

  Status getStatus() const {
    return driver.check(code, "cuThreadExchangeStreamCaptureMode");
  }

private:
  const Driver &driver;
  int mode = 2; ///< CU_STREAM_CAPTURE_MODE_RELAXED, then that of before
  int code;
};

} // namespace sextant::runtime::cuda

#endif // SEXTANT_RUNTIME_CUDA_DRIVER_H
