//===- TorchDevice.h - The CPU as LibTorch has it ---------------*- C++ -*-===//
//
// LibTorch's allocator, threads and operators, over its stable ABI.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H
#define SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H

#include "runtime/Device.h"

namespace sextant::runtime {

const Device &getTorchDevice();

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_TORCHDEVICE_H
