//===- HostDevice.h - The host without LibTorch -----------------*- C++ -*-===//
//
// This device allocates with aligned_alloc and runs work items on threads of
// its own: enough for command-line tools and tests. It has no dense operators.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPU_HOSTDEVICE_H
#define SEXTANT_RUNTIME_CPU_HOSTDEVICE_H

#include "runtime/Device.h"

namespace sextant::runtime {

/// The host with as many threads as it has cores.
const Device &getHostDevice();

/// The number of threads of the host device, and another one (at least 1).
int64_t getHostThreads();
void setHostThreads(int64_t threads);

/// A contiguous tensor of its own memory on the host; its contents are
/// undefined.
Result<Tensor> allocateOnHost(DType dtype, std::span<const int64_t> sizes);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPU_HOSTDEVICE_H
