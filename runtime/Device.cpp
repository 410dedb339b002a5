//===- Device.cpp - Tensors between the host and a device -----------------===//
//
// These functions move tensors between the host and a device by the device's
// own copies, and keep their strides.
//
//===----------------------------------------------------------------------===//

#include "runtime/Device.h"
#include "runtime/cpu/HostDevice.h"

using namespace sextant::runtime;

Result<Tensor> sextant::runtime::makeTensor(const Device &device, DType dtype,
                                            std::span<const int64_t> sizes,
                                            const void *bytes) {
  Result<Tensor> tensor = device.allocate(device.state, dtype, sizes);
  if (!tensor)
    return tensor;
  if (int64_t size = tensor->elements() * getByteSize(dtype))
    if (Status status = device.copyIn(device.state, tensor->data, bytes, size);
        !status)
      return status.error();
  return tensor;
}

using Copy = decltype(Device::copyIn);

/// A copy in memory of `to`: all that lies between the first and the last
/// element, so that the strides stay.
static Result<Tensor> copy(const Device &to, void *state, Copy copyBytes,
                           const Tensor &tensor) {
  auto [low, high] = getReach(tensor);
  int64_t room[] = {high - low};
  Result<Tensor> memory = to.allocate(to.state, tensor.dtype, room);
  if (!memory)
    return memory;
  int64_t bytes = getByteSize(tensor.dtype);
  Tensor result = tensor;
  result.owner = memory->owner;
  result.data = static_cast<char *>(memory->data) - low * bytes;
  if (room[0] > 0)
    if (Status status =
            copyBytes(state, memory->data,
                      static_cast<const char *>(tensor.data) + low * bytes,
                      room[0] * bytes);
        !status)
      return status.error();
  return result;
}

static Result<std::vector<Tensor>> copyAll(const Device &to, void *state,
                                           Copy copyBytes,
                                           std::span<const Tensor> tensors) {
  std::vector<Tensor> copies;
  for (const Tensor &tensor : tensors) {
    Result<Tensor> made = copy(to, state, copyBytes, tensor);
    if (!made)
      return made.error();
    copies.push_back(std::move(*made));
  }
  return copies;
}

Result<std::vector<Tensor>>
sextant::runtime::copyToDevice(const Device &device,
                               std::span<const Tensor> tensors) {
  if (&device == &getHostDevice())
    return std::vector<Tensor>(tensors.begin(), tensors.end());
  return copyAll(device, device.state, device.copyIn, tensors);
}

Result<std::vector<Tensor>>
sextant::runtime::copyToHost(const Device &device,
                             std::span<const Tensor> tensors) {
  if (device.hasHostMemory)
    return std::vector<Tensor>(tensors.begin(), tensors.end());
  return copyAll(getHostDevice(), device.state, device.copyOut, tensors);
}
