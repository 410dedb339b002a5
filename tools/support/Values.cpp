//===- Values.cpp - Elements of tensors as numbers ------------------------===//
//
// Elements are decoded one at a time, with conversions of f16 and bf16 that
// need no support from the compiler.
//
//===----------------------------------------------------------------------===//

#include "tools/support/Values.h"
#include "runtime/cpu/HostDevice.h"
#include <bit>
#include <cmath>

using namespace sextant;
using namespace sextant::runtime;

/// Half precision by its definition: no compiler support needed.
static double decodeF16(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                : std::ldexp(mantissa, -24);
  return bits >> 15 ? -value : value;
}

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
    return std::bit_cast<float>(
        uint32_t(static_cast<const uint16_t *>(tensor.data)[index]) << 16);
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

/// To the nearest, ties to even; NaN stays one.
static uint16_t encodeBF16(double value) {
  auto number = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

Result<Tensor> tools::makeTensor(DType dtype, std::span<const int64_t> sizes,
                                 std::span<const double> values) {
  if (dtype == DType::F16)
    return makeError("tools make no tensors of f16");
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
