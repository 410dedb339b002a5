//===- TorchDevice.h - The CPU as LibTorch has it ---------------*- C++ -*-===//
//
// This device uses LibTorch's allocator, threads and operators through its
// stable ABI.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H
#define SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H

#include "runtime/Device.h"

namespace sextant::runtime {

const Device &getTorchDevice();

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H
