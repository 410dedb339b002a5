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
#include <cmath>
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
                             int32_t dtype, TorchPlace place) {
  AtenTensorHandle result;
  checkTorch(aoti_torch_aten_full(
                 sizes.data(), static_cast<int64_t>(sizes.size()), value,
                 &dtype, nullptr, &place.type, place.index, nullptr, &result),
             "aten::full");
  return StableTensor(result);
}

/// The Scalar as a tensor of no dimensions that operators on `like` take: f32
/// for a float of half the width, so that it is not rounded. On the host, where
/// operators of elements read it without a wait, unless `place` says otherwise.
static StableTensor makeScalar(const StableTensor &like,
                               const CallArgument &argument,
                               TorchPlace place = {}) {
  int32_t dtype;
  checkTorch(aoti_torch_get_dtype(like.get(), &dtype), "aoti_torch_get_dtype");
  bool half = dtype == aoti_torch_dtype_bfloat16() ||
              dtype == aoti_torch_dtype_float16();
  if (half)
    dtype = aoti_torch_dtype_float32();
  return makeFull({}, getNumber(argument), dtype, place);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// The dtype of a tensor of integers, none if it has other elements.
static std::optional<DType> getIntegerDType(const StableTensor &tensor) {
  int32_t dtype;
  checkTorch(aoti_torch_get_dtype(tensor.get(), &dtype),
             "aoti_torch_get_dtype");
  for (DType integer : {DType::I64, DType::I32})
    if (dtype == getTorchDType(integer))
      return integer;
  return std::nullopt;
}

/// self - factor * other of integers. `aten::subtract` takes a factor as a
/// double only, which ATen refuses for integers.
static StableTensor subtractIntegers(const StableTensor &self,
                                     const StableTensor &other, double factor,
                                     DType dtype) {
  if (std::fabs(factor) != 1.0)
    throw std::runtime_error("integers are added with the factor 1 or -1");
  TorchPlace place = getPlace(self);
  if (getPlace(other) != place)
    throw std::runtime_error("integers on " + place.describe() + " and on " +
                             getPlace(other).describe() + " are not added");
  StableTensor right =
      factor > 0.0
          ? callByName("aten::neg", {CallArgument::of(other)}, place)[0]
          : other;
  Results both = callByName("aten::broadcast_tensors",
                            {CallArgument::ofList({self, right})}, place);
  StableTensor stack = callByName(
      "aten::stack",
      {CallArgument::ofList(both), CallArgument::of(ArgumentKind::Int, 0)},
      place)[0];
  return callByName(
      "aten::sum.dim_IntList",
      {CallArgument::of(stack), CallArgument::ofList(std::vector<int64_t>{0}),
       CallArgument::of(ArgumentKind::Bool, 0),
       CallArgument::of(ArgumentKind::DType, static_cast<int64_t>(dtype))},
      place)[0];
}

static StableTensor subtract(const StableTensor &self,
                             const StableTensor &other, double factor) {
  if (std::optional<DType> integer = getIntegerDType(self);
      integer && integer == getIntegerDType(other))
    return subtractIntegers(self, other, factor, *integer);
  AtenTensorHandle result;
  checkTorch(
      aoti_torch_aten_subtract_Tensor(self.get(), other.get(), factor, &result),
      "aten::subtract");
  return StableTensor(result);
}

static void copyInto(const StableTensor &to, const StableTensor &from) {
  checkTorch(aoti_torch_copy_(to.get(), from.get(), 0), "aten::copy_");
}

//===----------------------------------------------------------------------===//
// The operators
//===----------------------------------------------------------------------===//

static Results add(const CallArguments &arguments, TorchPlace) {
  return {subtract(arguments[0].tensors[0], arguments[1].tensors[0],
                   -getNumber(arguments[2]))};
}

static Results addInPlace(const CallArguments &arguments, TorchPlace place) {
  copyInto(arguments[0].tensors[0], add(arguments, place)[0]);
  return {arguments[0].tensors[0]};
}

static Results addScalar(const CallArguments &arguments, TorchPlace) {
  const StableTensor &self = arguments[0].tensors[0];
  // A stack takes tensors of one place alone.
  TorchPlace place = getIntegerDType(self) ? getPlace(self) : TorchPlace();
  return {subtract(self, makeScalar(self, arguments[1], place),
                   -getNumber(arguments[2]))};
}

static Results sub(const CallArguments &arguments, TorchPlace) {
  return {subtract(arguments[0].tensors[0], arguments[1].tensors[0],
                   getNumber(arguments[2]))};
}

/// An operator of a tensor and a Scalar by that of two tensors.
template <const char *op>
static Results withTensor(const CallArguments &arguments, TorchPlace place) {
  const StableTensor &self = arguments[0].tensors[0];
  return callByName(op,
                    {CallArgument::of(self),
                     CallArgument::of(makeScalar(self, arguments[1]))},
                    place);
}

static Results fill(const CallArguments &arguments, TorchPlace) {
  checkTorch(aoti_torch_aten_fill__Scalar(arguments[0].tensors[0].get(),
                                          getNumber(arguments[1])),
             "aten::fill_");
  return {arguments[0].tensors[0]};
}

/// f32 where the call leaves it open.
static int32_t getDType(const CallArgument &argument) {
  return getTorchDType(argument.kind == ArgumentKind::DType
                           ? static_cast<DType>(argument.number)
                           : DType::F32);
}

static Results full(const CallArguments &arguments, TorchPlace place) {
  return {makeFull(arguments[0].numbers, getNumber(arguments[1]),
                   getDType(arguments[2]), place)};
}

static Results scalarTensor(const CallArguments &arguments, TorchPlace place) {
  return {makeFull({}, getNumber(arguments[0]), getDType(arguments[1]), place)};
}

/// 0 .. n - 1: equal steps from the first to the last, which are whole. ATen
/// reads both, so they are the host's, wherever the numbers go.
static Results arange(const CallArguments &arguments, TorchPlace place) {
  auto count = static_cast<int64_t>(getNumber(arguments[0]));
  if (count < 0)
    throw std::runtime_error("the numbers from 0 on cannot be " +
                             std::to_string(count));
  int32_t real = getTorchDType(DType::F64);
  return callByName(
      "aten::linspace.Tensor_Tensor",
      {CallArgument::of(makeFull({}, 0.0, real, {})),
       CallArgument::of(makeFull({}, static_cast<double>(count - 1), real, {})),
       CallArgument::of(ArgumentKind::Int, count), arguments[1]},
      place);
}

static constexpr char mulTensor[] = "aten::mul.Tensor";
static constexpr char mulTensorInPlace[] = "aten::mul_.Tensor";
static constexpr char divTensor[] = "aten::div.Tensor";
static constexpr char powTensor[] = "aten::pow.Tensor_Tensor";
static constexpr char neTensor[] = "aten::ne.Tensor";

StandIn sextant::runtime::findScalarOperator(std::string_view op) {
  static constexpr std::pair<std::string_view, StandIn> table[] = {
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
      {"aten::scalar_tensor", scalarTensor},
      {"aten::arange", arange},
  };
  for (auto [name, function] : table)
    if (name == op)
      return function;
  return nullptr;
}
