//===- HostLaunch.h - What devices of the host do alike ---------*- C++ -*-===//
//
// Devices of the host fill and copy memory alike and launch the same kernels.
// They differ in where their memory and their threads come from.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPU_HOSTLAUNCH_H
#define SEXTANT_RUNTIME_CPU_HOSTLAUNCH_H

#include "runtime/Device.h"

namespace sextant::runtime {

/// The threads of a device.
struct HostThreads {
  /// How many `run` may use now.
  int64_t (*count)();
  /// Calls work(context, i) for every i in [0, workers), on any threads, and
  /// returns when all are done.
  Status (*run)(int64_t workers, void (*work)(void *context, int64_t worker),
                void *context);
};

/// A device whose memory is the host's, without dense operators. Its sessions
/// hold scratch memory.
Device makeHostDevice(const char *name, decltype(Device::allocate) allocate,
                      decltype(Device::launch) launch);

/// Device::launch, on threads. The session is one of such a device.
Result<int64_t> launchOnHost(void *session, const Kernel &kernel,
                             std::span<const int64_t> arguments,
                             const HostThreads &threads);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPU_HOSTLAUNCH_H
