//===- CudaDevice.h - A GPU as a device of the runtime ----------*- C++ -*-===//
//
// Kernels run on a stream, in the order in which they are launched, and the
// host waits for none of them. Memory and the stream are the device's own, or
// those of a library that shares the GPU.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CUDA_CUDADEVICE_H
#define SEXTANT_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/PendingChecks.h"

namespace sextant::runtime::cuda {

/// Whom a device asks for memory, which is given back in the order of the
/// stream, and for the stream. `state` is the CudaDevice.
struct CudaResources {
  decltype(Device::allocate) allocate;
  Result<Stream> (*getStream)(void *state);
};

/// A GPU and what the device keeps of it; the state of its `device`.
class CudaDevice {
public:
  CudaDevice(Gpu gpu, CudaResources resources);
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  Gpu gpu;
  CudaResources resources;
  PendingChecks checks;
  Stream ownStream = nullptr; ///< where the resources are the device's own
  std::string name;           ///< "cuda:0 (NVIDIA H200, sm_90)"
  Device device;
};

/// A device with memory and a stream of its own, without dense operators.
Result<std::unique_ptr<CudaDevice>> makeOwnDevice(const Driver &driver,
                                                  int index);

/// That of an index, made when it is asked for first; it lives as long as the
/// process.
Result<const Device *> getCudaDevice(int index);

/// Device::launch.
Result<int64_t> launchOnGpu(void *state, void *session, const Kernel &kernel,
                            std::span<const int64_t> arguments);

} // namespace sextant::runtime::cuda

#endif // SEXTANT_RUNTIME_CUDA_CUDADEVICE_H
