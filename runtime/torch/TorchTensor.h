//===- TorchTensor.h - Tensors of LibTorch and of the runtime ---*- C++ -*-===//
//
// Tensors cross the border between LibTorch and the runtime without being
// copied.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_TORCHTENSOR_H
#define SEXTANT_RUNTIME_TORCH_TORCHTENSOR_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"
#include <torch/csrc/stable/tensor.h>

namespace sextant::runtime {

/// Where a tensor of LibTorch is.
struct TorchPlace {
  int32_t type = aoti_torch_device_type_cpu(); ///< LibTorch's number of a kind
  int32_t index = 0;                           ///< 0 of the host

  auto operator<=>(const TorchPlace &) const = default;
  bool isHost() const { return type == aoti_torch_device_type_cpu(); }
  /// "cpu", "cuda:1".
  std::string describe() const;
};
TorchPlace getPlace(const torch::stable::Tensor &tensor);

/// A tensor of undefined contents in memory of LibTorch.
Result<Tensor> allocateInTorch(DType dtype, std::span<const int64_t> sizes,
                               TorchPlace place);

/// The runtime's view of a tensor of LibTorch, which it keeps alive. An error
/// for a dtype, a rank or a device that the runtime has not.
Result<Tensor> fromTorch(const torch::stable::Tensor &tensor);

/// A tensor of LibTorch with the shape of `tensor`, which must come from
/// `fromTorch` or a view of such a one.
torch::stable::Tensor toTorch(const Tensor &tensor);

/// LibTorch's number of a dtype (aoti_torch_dtype_*).
int32_t getTorchDType(DType dtype);

/// Throws what LibTorch said when `code`, the result of `call`, is a failure.
void checkTorch(int32_t code, const char *call);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_TORCHTENSOR_H
