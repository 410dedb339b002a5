//===- OperatorCall.h - Calls through LibTorch's dispatcher -----*- C++ -*-===//
//
// The stable ABI calls an operator by its name, with untyped words in the order
// of its schema.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_OPERATORCALL_H
#define SEXTANT_RUNTIME_TORCH_OPERATORCALL_H

#include "runtime/Device.h"
#include "runtime/torch/Schema.h"
#include "runtime/torch/TorchTensor.h"

namespace sextant::runtime {

/// One argument of a call, as C++ has it, in the order of the schema.
struct CallArgument {
  ArgumentKind kind = ArgumentKind::None;
  int64_t number = 0; ///< Int, Bool, DType
  double real = 0.0;  ///< Float
  std::string_view text;
  std::vector<int64_t> numbers;               ///< Ints
  std::vector<torch::stable::Tensor> tensors; ///< Tensor, Tensors

  static CallArgument of(torch::stable::Tensor tensor);
  static CallArgument ofList(std::vector<torch::stable::Tensor> tensors);
  static CallArgument ofList(std::vector<int64_t> numbers);
  /// An integer, a bool or a dtype.
  static CallArgument of(ArgumentKind kind, int64_t number);
};

using CallArguments = std::vector<CallArgument>;

/// Calls through the dispatcher. What the operator makes of nothing lies at
/// `place`. Throws what LibTorch throws.
std::vector<torch::stable::Tensor> callOperator(const Schema &schema,
                                                const CallArguments &arguments,
                                                TorchPlace place);

/// Calls an operator of the table of schemas with the arguments at the front of
/// its schema and none for the others.
std::vector<torch::stable::Tensor>
callByName(const char *op, CallArguments arguments, TorchPlace place);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_OPERATORCALL_H
