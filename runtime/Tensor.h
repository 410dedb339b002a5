//===- Tensor.h - A tensor as the runtime sees it ---------------*- C++ -*-===//
//
// A tensor is an address, a shape and shared ownership of the memory. Views
// share the owner; nothing here knows a device.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TENSOR_H
#define SEXTANT_RUNTIME_TENSOR_H

#include "runtime/Artifact_generated.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sextant::runtime {

using DType = artifact::DType;

/// More dimensions than any program has; programs with more are refused.
inline constexpr uint32_t maxRank = 8;

/// A strided tensor of at most `maxRank` dimensions.
struct Tensor {
  void *data = nullptr;
  DType dtype = DType::F32;
  uint32_t rank = 0;
  int64_t sizes[maxRank] = {};
  int64_t strides[maxRank] = {}; ///< in elements
  std::shared_ptr<void> owner;   ///< keeps `data` alive; the device's business

  int64_t elements() const;
  /// Whether elements lie in memory in the order of their indices.
  bool isContiguous() const;
  /// Sets sizes, and strides of contiguous memory.
  void setShape(std::span<const int64_t> newSizes);
  std::span<const int64_t> shape() const { return {sizes, rank}; }
};

/// Bytes of an element; 0 for a number that is no dtype.
int64_t getByteSize(DType dtype);
/// As MLIR and PyTorch users read it: "f32", "bf16", "i64", "bool".
const char *getName(DType dtype);
/// "[2, 3]", with ? for -1.
std::string formatShape(std::span<const int64_t> sizes);

/// The memory of a tensor, in elements from its address: from the first one to
/// behind the last one; empty if the tensor is.
struct Reach {
  int64_t low, high;
};
Reach getReach(const Tensor &tensor);

/// Number of elements of a shape, or -1 if a size is negative or the product
/// of element size and sizes does not fit 63 bits.
int64_t countElements(DType dtype, std::span<const int64_t> sizes);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TENSOR_H
