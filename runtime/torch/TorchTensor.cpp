//===- TorchTensor.cpp - Tensors of LibTorch and of the runtime -----------===//
//
// A tensor of the runtime that comes from LibTorch owns a handle of the
// original, which keeps the memory alive.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/TorchTensor.h"
#include <dlfcn.h>
#include <stdexcept>

using namespace sextant::runtime;

/// The message of the last exception inside LibTorch, where the installed one
/// (2.13 and later) can tell.
static std::string getTorchMessage() {
  using Message = const char *(*)();
  static const auto message = reinterpret_cast<Message>(
      dlsym(RTLD_DEFAULT, "torch_exception_get_what_without_backtrace"));
  const char *text = message ? message() : nullptr;
  return text ? text : "";
}

void sextant::runtime::checkTorch(int32_t code, const char *call) {
  if (code == 0)
    return;
  std::string message = getTorchMessage();
  throw std::runtime_error(message.empty() ? std::string(call) + " failed"
                                           : message);
}

int32_t sextant::runtime::getTorchDType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return aoti_torch_dtype_float32();
  case DType::F64:
    return aoti_torch_dtype_float64();
  case DType::BF16:
    return aoti_torch_dtype_bfloat16();
  case DType::F16:
    return aoti_torch_dtype_float16();
  case DType::I64:
    return aoti_torch_dtype_int64();
  case DType::I32:
    return aoti_torch_dtype_int32();
  case DType::I16:
    return aoti_torch_dtype_int16();
  case DType::I8:
    return aoti_torch_dtype_int8();
  case DType::U8:
    return aoti_torch_dtype_uint8();
  case DType::Bool:
    return aoti_torch_dtype_bool();
  }
  throw std::runtime_error("no such dtype");
}

/// Indexed by DType.
static const int32_t *getTorchDTypes() {
  static const std::vector<int32_t> numbers = [] {
    std::vector<int32_t> all;
    for (int i = 0; i <= static_cast<int>(DType::MAX); ++i)
      all.push_back(getTorchDType(static_cast<DType>(i)));
    return all;
  }();
  return numbers.data();
}

std::string TorchPlace::describe() const {
  if (isHost())
    return "cpu";
  return (type == aoti_torch_device_type_cuda()
              ? "cuda:"
              : "PyTorch's device " + std::to_string(type) + ":") +
         std::to_string(index);
}

TorchPlace sextant::runtime::getPlace(const torch::stable::Tensor &tensor) {
  TorchPlace place;
  checkTorch(aoti_torch_get_device_type(tensor.get(), &place.type),
             "aoti_torch_get_device_type");
  if (!place.isHost())
    checkTorch(aoti_torch_get_device_index(tensor.get(), &place.index),
               "aoti_torch_get_device_index");
  return place;
}

Result<Tensor> sextant::runtime::allocateInTorch(DType dtype,
                                                 std::span<const int64_t> sizes,
                                                 TorchPlace place) try {
  Tensor shape;
  shape.setShape(sizes);
  AtenTensorHandle handle;
  checkTorch(aoti_torch_empty_strided(shape.rank, shape.sizes, shape.strides,
                                      getTorchDType(dtype), place.type,
                                      place.index, &handle),
             "aoti_torch_empty_strided");
  return fromTorch(torch::stable::Tensor(handle));
} catch (const std::exception &error) {
  return makeError(error.what());
}

Result<Tensor>
sextant::runtime::fromTorch(const torch::stable::Tensor &tensor) {
  AtenTensorHandle handle = tensor.get();
  Tensor result;
  int32_t dtype;
  checkTorch(aoti_torch_get_dtype(handle, &dtype), "aoti_torch_get_dtype");
  TorchPlace place = getPlace(tensor);
  if (!place.isHost() && place.type != aoti_torch_device_type_cuda())
    return makeError("a tensor is not on the CPU or a CUDA device but on ",
                     "another (PyTorch's number ", place.type,
                     "; tensors on the meta device have no values): pass one "
                     "on the CPU, or on a CUDA device");
  const int32_t *dtypes = getTorchDTypes();
  int number = 0;
  while (number <= static_cast<int>(DType::MAX) && dtypes[number] != dtype)
    ++number;
  if (number > static_cast<int>(DType::MAX))
    return makeError("a tensor has a dtype that the runtime has not "
                     "(PyTorch's number ",
                     dtype, ")");
  result.dtype = static_cast<DType>(number);
  int64_t rank, *sizes, *strides;
  checkTorch(aoti_torch_get_dim(handle, &rank), "aoti_torch_get_dim");
  checkTorch(aoti_torch_get_sizes(handle, &sizes), "aoti_torch_get_sizes");
  checkTorch(aoti_torch_get_strides(handle, &strides),
             "aoti_torch_get_strides");
  if (rank > static_cast<int64_t>(maxRank))
    return makeError("a tensor has ", rank, " dimensions, more than ", maxRank);
  result.rank = static_cast<uint32_t>(rank);
  std::copy_n(sizes, rank, result.sizes);
  std::copy_n(strides, rank, result.strides);
  checkTorch(aoti_torch_get_data_ptr(handle, &result.data),
             "aoti_torch_get_data_ptr");
  result.owner = std::make_shared<torch::stable::Tensor>(tensor);
  return result;
}

torch::stable::Tensor sextant::runtime::toTorch(const Tensor &tensor) {
  const auto &base =
      *static_cast<const torch::stable::Tensor *>(tensor.owner.get());
  AtenTensorHandle handle = base.get();
  int64_t rank, *sizes, *strides;
  void *data;
  checkTorch(aoti_torch_get_dim(handle, &rank), "aoti_torch_get_dim");
  checkTorch(aoti_torch_get_sizes(handle, &sizes), "aoti_torch_get_sizes");
  checkTorch(aoti_torch_get_strides(handle, &strides),
             "aoti_torch_get_strides");
  checkTorch(aoti_torch_get_data_ptr(handle, &data), "aoti_torch_get_data_ptr");
  if (data == tensor.data && rank == static_cast<int64_t>(tensor.rank) &&
      std::equal(sizes, sizes + rank, tensor.sizes) &&
      std::equal(strides, strides + rank, tensor.strides))
    return base;
  // LibTorch adds it to the offset in the storage that the tensor has, though
  // its name for the argument is that of the whole offset.
  int64_t increment =
      (static_cast<char *>(tensor.data) - static_cast<char *>(data)) /
      static_cast<int64_t>(getByteSize(tensor.dtype));
  AtenTensorHandle view;
  checkTorch(aoti_torch__reinterpret_tensor(handle, tensor.rank, tensor.sizes,
                                            tensor.strides, increment, &view),
             "aoti_torch__reinterpret_tensor");
  return torch::stable::Tensor(view);
}
