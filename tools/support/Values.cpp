//===- Values.cpp - Elements of tensors as numbers ------------------------===//

#include "tools/support/Values.h"
#include "runtime/NarrowFloats.h"
#include "runtime/cpu/HostDevice.h"

using namespace sextant;
using namespace sextant::runtime;

static double load(const Tensor &tensor, int64_t index) {
  auto get = [&]<typename T>(T) {
    return static_cast<double>(static_cast<const T *>(tensor.data)[index]);
  };
  switch (tensor.dtype) {
  case DType::F32:
    return get(float());
  case DType::F64:
    return get(double());
  case DType::BF16:
    return decodeBF16(static_cast<const uint16_t *>(tensor.data)[index]);
  case DType::F16:
    return decodeF16(static_cast<const uint16_t *>(tensor.data)[index]);
  case DType::I64:
    return get(int64_t());
  case DType::I32:
    return get(int32_t());
  case DType::I16:
    return get(int16_t());
  case DType::I8:
    return get(int8_t());
  case DType::U8:
  case DType::Bool:
    return get(uint8_t());
  }
  return 0.0;
}

static void append(const Tensor &tensor, uint32_t dim, int64_t offset,
                   std::vector<double> &values) {
  if (dim == tensor.rank) {
    values.push_back(load(tensor, offset));
    return;
  }
  for (int64_t i = 0; i < tensor.sizes[dim]; ++i)
    append(tensor, dim + 1, offset + i * tensor.strides[dim], values);
}

std::vector<double> tools::getValues(const Tensor &tensor) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(tensor.elements()));
  append(tensor, 0, 0, values);
  return values;
}

Result<Tensor> tools::makeTensor(DType dtype, std::span<const int64_t> sizes,
                                 std::span<const double> values) {
  Result<Tensor> tensor = allocateOnHost(dtype, sizes);
  if (!tensor)
    return tensor;
  for (size_t i = 0; i < values.size(); ++i) {
    auto put = [&]<typename T>(T) {
      static_cast<T *>(tensor->data)[i] = static_cast<T>(values[i]);
    };
    switch (dtype) {
    case DType::F32:
      put(float());
      break;
    case DType::F64:
      put(double());
      break;
    case DType::BF16:
      static_cast<uint16_t *>(tensor->data)[i] = encodeBF16(values[i]);
      break;
    case DType::F16:
      static_cast<uint16_t *>(tensor->data)[i] = encodeF16(values[i]);
      break;
    case DType::I64:
      put(int64_t());
      break;
    case DType::I32:
      put(int32_t());
      break;
    case DType::I16:
      put(int16_t());
      break;
    case DType::I8:
      put(int8_t());
      break;
    case DType::U8:
      put(uint8_t());
      break;
    case DType::Bool:
      static_cast<uint8_t *>(tensor->data)[i] = values[i] != 0.0;
      break;
    }
  }
  return tensor;
}
