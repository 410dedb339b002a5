//===- TorchCudaDevice.h - A GPU as LibTorch has it -------------*- C++ -*-===//
//
// This device uses LibTorch's caching allocator, its current stream and its
// operators. What only a LibTorch with CUDA has is looked up when a program is
// loaded on a GPU, so one binary serves both.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_TORCHCUDADEVICE_H
#define SEXTANT_RUNTIME_TORCH_TORCHCUDADEVICE_H

#include "runtime/Device.h"

namespace sextant::runtime {

/// The operation `resolve` of the device.
Result<std::unique_ptr<ResolvedOperator>> resolveOnGpu(void *state,
                                                       const Dense &call);

/// The device of an index of LibTorch, made when it is asked for first; it
/// lives as long as the process.
Result<const Device *> getTorchCudaDevice(int index);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_TORCHCUDADEVICE_H
