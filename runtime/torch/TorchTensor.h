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
