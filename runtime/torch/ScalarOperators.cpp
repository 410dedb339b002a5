//===- ScalarOperators.cpp - Operators that take Scalars ------------------===//
//
// LibTorch's dispatcher takes no Scalars over the stable ABI. Each operator
// here is done by one that needs none: by an entry of the C interface, or with
// a tensor of no dimensions in the Scalar's place (which does not take part in
// type promotion).
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Results = std::vector<StableTensor>;

static double getNumber(const CallArgument &argument) {
  return argument.kind == ArgumentKind::Float
             ? argument.real
             : static_cast<double>(argument.number);
}

static StableTensor makeFull(const std::vector<int64_t> &sizes, double value,
                             int32_t dtype) {
  AtenTensorHandle result;
  checkTorch(aoti_torch_aten_full(
                 sizes.data(), static_cast<int64_t>(sizes.size()), value,
                 &dtype, nullptr, nullptr, 0, nullptr, &result),
             "aten::full");
  return StableTensor(result);
}

/// The Scalar as a tensor of no dimensions that operators on `like` take: f32
/// for a float of half the width, so that it is not rounded.
static StableTensor makeScalar(const StableTensor &like,
                               const CallArgument &argument) {
  int32_t dtype;
  checkTorch(aoti_torch_get_dtype(like.get(), &dtype), "aoti_torch_get_dtype");
  bool half = dtype == aoti_torch_dtype_bfloat16() ||
              dtype == aoti_torch_dtype_float16();
  if (half)
    dtype = aoti_torch_dtype_float32();
  return makeFull({}, getNumber(argument), dtype);
}

static StableTensor subtract(const StableTensor &self,
                             const StableTensor &other, double factor) {
  AtenTensorHandle result;
  checkTorch(
      aoti_torch_aten_subtract_Tensor(self.get(), other.get(), factor, &result),
      "aten::subtract");
  return StableTensor(result);
}

/// Calls `op` (of the table of schemas, without Scalars) on tensors.
static Results call(const char *op, Results tensors) {
  Result<Schema> schema = findSchema(op);
  if (!schema)
    throw std::runtime_error(schema.error().message());
  CallArguments arguments;
  for (StableTensor &tensor : tensors) {
    CallArgument &argument = arguments.emplace_back();
    argument.kind = ArgumentKind::Tensor;
    argument.tensors = {std::move(tensor)};
  }
  return callOperator(*schema, arguments);
}

static void copyInto(const StableTensor &to, const StableTensor &from) {
  checkTorch(aoti_torch_copy_(to.get(), from.get(), 0), "aten::copy_");
}

//===----------------------------------------------------------------------===//
// The operators
//===----------------------------------------------------------------------===//

static Results add(const CallArguments &arguments) {
  return {subtract(arguments[0].tensors[0], arguments[1].tensors[0],
                   -getNumber(arguments[2]))};
}

static Results addInPlace(const CallArguments &arguments) {
  copyInto(arguments[0].tensors[0], add(arguments)[0]);
  return {arguments[0].tensors[0]};
}

static Results addScalar(const CallArguments &arguments) {
  const StableTensor &self = arguments[0].tensors[0];
  return {
      subtract(self, makeScalar(self, arguments[1]), -getNumber(arguments[2]))};
}

static Results sub(const CallArguments &arguments) {
  return {subtract(arguments[0].tensors[0], arguments[1].tensors[0],
                   getNumber(arguments[2]))};
}

/// An operator of a tensor and a Scalar by that of two tensors.
template <const char *op>
static Results withTensor(const CallArguments &arguments) {
  const StableTensor &self = arguments[0].tensors[0];
  return call(op, {self, makeScalar(self, arguments[1])});
}

static Results fill(const CallArguments &arguments) {
  checkTorch(aoti_torch_aten_fill__Scalar(arguments[0].tensors[0].get(),
                                          getNumber(arguments[1])),
             "aten::fill_");
  return {arguments[0].tensors[0]};
}

static Results full(const CallArguments &arguments) {
  int32_t dtype = arguments[2].kind == ArgumentKind::DType
                      ? getTorchDType(static_cast<DType>(arguments[2].number))
                      : aoti_torch_dtype_float32();
  return {makeFull(arguments[0].numbers, getNumber(arguments[1]), dtype)};
}

static constexpr char mulTensor[] = "aten::mul.Tensor";
static constexpr char mulTensorInPlace[] = "aten::mul_.Tensor";
static constexpr char divTensor[] = "aten::div.Tensor";
static constexpr char powTensor[] = "aten::pow.Tensor_Tensor";
static constexpr char neTensor[] = "aten::ne.Tensor";

ScalarOperator sextant::runtime::findScalarOperator(std::string_view op) {
  static constexpr std::pair<std::string_view, ScalarOperator> table[] = {
      {"aten::add.Tensor", add},
      {"aten::add_.Tensor", addInPlace},
      {"aten::add.Scalar", addScalar},
      {"aten::sub.Tensor", sub},
      {"aten::mul.Scalar", withTensor<mulTensor>},
      {"aten::mul_.Scalar", withTensor<mulTensorInPlace>},
      {"aten::div.Scalar", withTensor<divTensor>},
      {"aten::pow.Tensor_Scalar", withTensor<powTensor>},
      {"aten::ne.Scalar", withTensor<neTensor>},
      {"aten::fill_.Scalar", fill},
      {"aten::full", full},
  };
  for (auto [name, function] : table)
    if (name == op)
      return function;
  return nullptr;
}
