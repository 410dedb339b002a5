//===- TorchCudaDevice.cpp - A GPU as LibTorch has it ---------------------===//
//
// Scratch memory and tensors go back to the caching allocator, which gives them
// out again in the order of the stream.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/TorchCudaDevice.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <dlfcn.h>
#include <map>
#include <mutex>

using namespace sextant::runtime;
using cuda::CudaDevice;

/// LibTorch's current stream of a device: a function that a LibTorch without
/// CUDA lacks.
using GetStream = AOTITorchError (*)(int32_t device, void **stream);

static GetStream findGetStream() {
  static const GetStream found = [] {
    // Loaded by LibTorch itself, or not there.
    void *library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library ? reinterpret_cast<GetStream>(
                         dlsym(library, "aoti_torch_get_current_cuda_stream"))
                   : nullptr;
  }();
  return found;
}

static Result<cuda::Stream> getStream(void *state) try {
  void *stream = nullptr;
  checkTorch(
      findGetStream()(static_cast<CudaDevice *>(state)->gpu.index, &stream),
      "aoti_torch_get_current_cuda_stream");
  return static_cast<cuda::Stream>(stream);
} catch (const std::exception &error) {
  return makeError(error.what());
}

static TorchPlace getTorchPlace(void *state) {
  return {aoti_torch_device_type_cuda(),
          static_cast<CudaDevice *>(state)->gpu.index};
}

static Result<Tensor> allocate(void *state, DType dtype,
                               std::span<const int64_t> sizes) {
  return allocateInTorch(dtype, sizes, getTorchPlace(state));
}

Result<std::unique_ptr<ResolvedOperator>>
sextant::runtime::resolveOnGpu(void *, const Dense &call) {
  return resolveDense(call, findGpuOperator(call.op));
}

static Result<std::vector<Tensor>>
call(void *state, const ResolvedOperator &resolved, const Dense &call,
     std::span<const Tensor> tensors, std::span<const int64_t> integers) {
  return callDense(getTorchPlace(state), resolved, call, tensors, integers);
}

static Result<std::unique_ptr<CudaDevice>> makeDevice(int index) {
  if (!findGetStream())
    return makeError("the PyTorch of this process has no CUDA: install one "
                     "that has, or use tensors on the CPU");
  Result<const cuda::Driver *> driver = cuda::Driver::get();
  if (!driver)
    return driver.error();
  Result<cuda::Gpu> gpu = cuda::Gpu::open(**driver, index);
  if (!gpu)
    return gpu.error();
  auto made = std::make_unique<CudaDevice>(
      std::move(*gpu), cuda::CudaResources{allocate, getStream});
  made->device.resolve = resolveOnGpu;
  made->device.call = call;
  return made;
}

Result<const Device *> sextant::runtime::getTorchCudaDevice(int index) {
  static std::mutex mutex;
  // Never destroyed: threads may outlive static objects.
  static auto *devices = new std::map<int, std::unique_ptr<CudaDevice>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaDevice> &device = (*devices)[index];
  if (!device) {
    Result<std::unique_ptr<CudaDevice>> made = makeDevice(index);
    if (!made)
      return made.error();
    device = std::move(*made);
  }
  return &device->device;
}
