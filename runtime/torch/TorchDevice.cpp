//===- TorchDevice.cpp - The CPU as LibTorch has it -----------------------===//
//
// Tensors are allocated and threads are started through LibTorch's C interface.
// Its exceptions become errors here.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/TorchDevice.h"
#include "runtime/HugePages.h"
#include "runtime/cpu/HostLaunch.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;

static Result<Tensor> allocate(void *, DType dtype,
                               std::span<const int64_t> sizes) {
  Result<Tensor> result = allocateInTorch(dtype, sizes, {});
  if (!result || !result->data)
    return result;
  adviseHugePages(result->data, result->elements() * getByteSize(dtype));
  return result;
}

static int64_t getThreads() {
  uint32_t threads = 1;
  if (torch_get_num_threads(&threads) != 0)
    return 1;
  return threads;
}

namespace {
/// What LibTorch's threads are to call.
struct Work {
  void (*work)(void *context, int64_t worker);
  void *context;
};
} // namespace

static Status runParallel(int64_t workers,
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

static Result<int64_t> launch(void *, void *session, const Kernel &kernel,
                              std::span<const int64_t> arguments) {
  return launchOnHost(session, kernel, arguments, {getThreads, runParallel});
}

static Result<std::vector<Tensor>>
call(void *, const ResolvedOperator &resolved, const Dense &call,
     std::span<const Tensor> tensors, std::span<const int64_t> integers) {
  return callDense({}, resolved, call, tensors, integers);
}

const Device &sextant::runtime::getTorchDevice() {
  static const Device device = [] {
    Device host = makeHostDevice("LibTorch", allocate, launch);
    host.resolve = [](void *, const Dense &call) { return resolveDense(call); };
    host.call = call;
    return host;
  }();
  return device;
}
