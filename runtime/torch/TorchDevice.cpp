//===- TorchDevice.cpp - The CPU as LibTorch has it -----------------------===//

#include "runtime/torch/TorchDevice.h"
#include "runtime/HugePages.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <cstring>
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;

static Result<Tensor> allocate(void *, DType dtype,
                               std::span<const int64_t> sizes, bool zero) try {
  Tensor shape;
  shape.setShape(sizes);
  AtenTensorHandle handle;
  checkTorch(aoti_torch_empty_strided(shape.rank, shape.sizes, shape.strides,
                                      getTorchDType(dtype),
                                      aoti_torch_device_type_cpu(), 0, &handle),
             "aoti_torch_empty_strided");
  Result<Tensor> result = fromTorch(torch::stable::Tensor(handle));
  if (!result || !result->data)
    return result;
  int64_t bytes = result->elements() * getByteSize(dtype);
  adviseHugePages(result->data, bytes);
  if (zero)
    std::memset(result->data, 0, static_cast<size_t>(bytes));
  return result;
} catch (const std::exception &error) {
  return makeError(error.what());
}

static int64_t getThreads(void *) {
  uint32_t threads = 1;
  if (torch_get_num_threads(&threads) != 0)
    return 1;
  return threads;
}

namespace {
struct Work {
  void (*work)(void *context, int64_t worker);
  void *context;
};
} // namespace

static Status runParallel(void *, int64_t workers,
                          void (*work)(void *context, int64_t worker),
                          void *context) try {
  Work each{work, context};
  checkTorch(torch_parallel_for(
                 0, workers, 1,
                 [](int64_t begin, int64_t end, void *opaque) {
                   auto &each = *static_cast<Work *>(opaque);
                   for (int64_t worker = begin; worker < end; ++worker)
                     each.work(each.context, worker);
                 },
                 &each),
             "torch_parallel_for");
  return {};
} catch (const std::exception &error) {
  return makeError(error.what());
}

const Device &sextant::runtime::getTorchDevice() {
  static const Device device = {"LibTorch",  nullptr,      allocate, getThreads,
                                runParallel, resolveDense, callDense};
  return device;
}
