//===- Tensor.cpp - Shapes and element types ------------------------------===//
//
// This file holds the arithmetic of shapes and strides, with checks for
// products that 63 bits do not hold.
//
//===----------------------------------------------------------------------===//

#include "runtime/Tensor.h"

using namespace sextant::runtime;

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (uint32_t dim = 0; dim < rank; ++dim)
    count *= sizes[dim];
  return count;
}

bool Tensor::isContiguous() const {
  if (elements() == 0)
    return true;
  int64_t expected = 1;
  for (uint32_t dim = rank; dim-- > 0;) {
    if (sizes[dim] != 1 && strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return true;
}

void Tensor::setShape(std::span<const int64_t> newSizes) {
  rank = static_cast<uint32_t>(newSizes.size());
  int64_t stride = 1;
  for (uint32_t dim = rank; dim-- > 0;) {
    sizes[dim] = newSizes[dim];
    strides[dim] = stride;
    stride *= newSizes[dim] > 0 ? newSizes[dim] : 1;
  }
}

Reach sextant::runtime::getReach(const Tensor &tensor) {
  if (tensor.elements() == 0)
    return {0, 0};
  Reach reach{0, 1};
  for (uint32_t dim = 0; dim < tensor.rank; ++dim) {
    int64_t last = (tensor.sizes[dim] - 1) * tensor.strides[dim];
    (last < 0 ? reach.low : reach.high) += last;
  }
  return reach;
}

int64_t sextant::runtime::getByteSize(DType dtype) {
  switch (dtype) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
  case DType::I16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    return 1;
  }
  return 0;
}

const char *sextant::runtime::getName(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return "f64";
  case DType::F32:
    return "f32";
  case DType::BF16:
    return "bf16";
  case DType::F16:
    return "f16";
  case DType::I64:
    return "i64";
  case DType::I32:
    return "i32";
  case DType::I16:
    return "i16";
  case DType::I8:
    return "i8";
  case DType::U8:
    return "u8";
  case DType::Bool:
    return "bool";
  }
  return "(no dtype)";
}

std::string sextant::runtime::formatShape(std::span<const int64_t> sizes) {
  std::string text = "[";
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (dim)
      text += ", ";
    text += sizes[dim] == -1 ? "?" : std::to_string(sizes[dim]);
  }
  return text + "]";
}

int64_t sextant::runtime::countElements(DType dtype,
                                        std::span<const int64_t> sizes) {
  // Zero sizes do not excuse the others: strides are products too.
  int64_t bytes = getByteSize(dtype), count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count) ||
        __builtin_mul_overflow(bytes, size > 0 ? size : 1, &bytes))
      return -1;
  }
  return count;
}
