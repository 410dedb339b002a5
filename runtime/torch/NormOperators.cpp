//===- NormOperators.cpp - Gradients of norms on any number of threads ----===//
//
// LibTorch's gradient of a layer norm sums the gradients of weight and bias
// over as many ranges of rows as there are threads, so that their last bits
// depend on how many those are. Here ranges follow from the number of rows
// alone, and are added up in their order: a step has the same bits on any
// number of threads.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Results = std::vector<StableTensor>;

namespace {

/// What the threads share that sum over rows.
struct RowSums {
  Tensor gradient, input, mean, rstd;
  int64_t rows, width;
  int64_t rowsOfRange;
  /// Of each range the sums for the weight, then those for the bias.
  Tensor sums;

  int64_t getRanges() const { return (rows + rowsOfRange - 1) / rowsOfRange; }
};

} // namespace

/// The runtime's view of an argument: elements of `dtype` on the host, row by
/// row.
static std::optional<Tensor> viewArgument(const CallArgument &argument,
                                          DType dtype) {
  if (argument.tensors.size() != 1 || !getPlace(argument.tensors[0]).isHost())
    return std::nullopt;
  Result<Tensor> view = fromTorch(argument.tensors[0]);
  if (!view || view->dtype != dtype || !view->isContiguous())
    return std::nullopt;
  return *view;
}

static Tensor allocate(DType dtype, std::initializer_list<int64_t> sizes) {
  Result<Tensor> made = allocateInTorch(dtype, sizes, {});
  if (!made)
    throw std::runtime_error(made.error().message());
  return *made;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {

/// f32 or f64, which is summed as it is.
template <typename T> struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum read(Stored value) { return value; }
  static Stored round(Sum value) { return value; }
};

/// Summed in f32: a sum in bf16 ends at 256 times the size of its terms.
struct BF16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum read(Stored value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  /// To the nearest, ties to even.
  static Stored round(Sum value) {
    if (std::isnan(value))
      return 0x7fc0;
    auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<Stored>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

template <typename T> static T *getData(const Tensor &tensor, int64_t index) {
  return static_cast<T *>(tensor.data) + index;
}

/// Sums of ranges of rows, in the order of the rows.
template <typename Element>
static void sumRanges(int64_t begin, int64_t end, void *opaque) {
  using Stored = typename Element::Stored;
  using Sum = typename Element::Sum;
  const auto &of = *static_cast<const RowSums *>(opaque);
  for (int64_t range = begin; range < end; ++range) {
    Sum *weight = getData<Sum>(of.sums, 2 * range * of.width);
    Sum *bias = weight + of.width;
    std::fill_n(weight, 2 * of.width, Sum(0));
    int64_t last = std::min(of.rows, (range + 1) * of.rowsOfRange);
    for (int64_t row = range * of.rowsOfRange; row < last; ++row) {
      const Stored *gradient = getData<Stored>(of.gradient, row * of.width);
      const Stored *input = getData<Stored>(of.input, row * of.width);
      Sum mean = Element::read(*getData<Stored>(of.mean, row));
      Sum rstd = Element::read(*getData<Stored>(of.rstd, row));
      for (int64_t i = 0; i < of.width; ++i) {
        Sum dy = Element::read(gradient[i]);
        weight[i] += dy * ((Element::read(input[i]) - mean) * rstd);
        bias[i] += dy;
      }
    }
  }
}

/// The sums of all ranges, added in their order: of weights (0) or biases (1).
template <typename Element>
static StableTensor addRanges(const RowSums &of, DType dtype, int64_t which) {
  using Sum = typename Element::Sum;
  std::vector<Sum> total(static_cast<size_t>(of.width), Sum(0));
  for (int64_t range = 0; range < of.getRanges(); ++range) {
    const Sum *from = getData<Sum>(of.sums, (2 * range + which) * of.width);
    for (size_t i = 0; i < total.size(); ++i)
      total[i] += from[i];
  }
  Tensor result = allocate(dtype, {of.width});
  std::transform(total.begin(), total.end(),
                 getData<typename Element::Stored>(result, 0), Element::round);
  return toTorch(result);
}

/// The gradients of weight and bias.
template <typename Element>
static Results sumRows(RowSums &of, DType dtype, DType sumDType) {
  constexpr int64_t grain = 1 << 14; // elements of a thread at least
  of.sums = allocate(sumDType, {of.getRanges(), 2, of.width});
  int64_t ofRange = std::max<int64_t>(1, of.rowsOfRange * of.width);
  checkTorch(torch_parallel_for(0, of.getRanges(),
                                std::max<int64_t>(1, grain / ofRange),
                                sumRanges<Element>, &of),
             "torch_parallel_for");
  return {addRanges<Element>(of, dtype, 0), addRanges<Element>(of, dtype, 1)};
}

static Results sumRows(RowSums &of, DType dtype) {
  switch (dtype) {
  case DType::F64:
    return sumRows<Plain<double>>(of, dtype, DType::F64);
  case DType::BF16:
    return sumRows<BF16>(of, dtype, DType::F32);
  default:
    return sumRows<Plain<float>>(of, dtype, DType::F32);
  }
}

//===----------------------------------------------------------------------===//
// The operator
//===----------------------------------------------------------------------===//

/// What is summed here: rows that lie one after another, with a mean and a
/// reciprocal deviation of the same type each.
static std::optional<RowSums> viewRows(const CallArguments &arguments) {
  constexpr int64_t mostRanges = 64, fewestRows = 32;
  for (DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    std::optional<Tensor> gradient = viewArgument(arguments[0], dtype);
    std::optional<Tensor> input = viewArgument(arguments[1], dtype);
    std::optional<Tensor> mean = viewArgument(arguments[3], dtype);
    std::optional<Tensor> rstd = viewArgument(arguments[4], dtype);
    if (!gradient || !input || !mean || !rstd ||
        arguments[2].numbers.size() != 1)
      continue;
    int64_t rows = mean->elements(), width = arguments[2].numbers[0];
    if (rows == 0 || rstd->elements() != rows ||
        input->elements() != rows * width ||
        gradient->elements() != input->elements())
      continue;
    int64_t rowsOfRange =
        std::max(fewestRows, (rows + mostRanges - 1) / mostRanges);
    return RowSums{*gradient, *input, *mean,       *rstd,
                   rows,      width,  rowsOfRange, Tensor()};
  }
  return std::nullopt;
}

static Results layerNormBackward(const CallArguments &arguments,
                                 TorchPlace place) {
  constexpr const char *name = "aten::native_layer_norm_backward";
  std::optional<RowSums> rows = viewRows(arguments);
  if (!rows)
    return callByName(name, arguments, place);
  // That of the input is the operator's: a row of it sees no other.
  CallArguments ofInput = arguments;
  ofInput.back().numbers = {1, 0, 0};
  Results results = callByName(name, ofInput, place);
  results.resize(1);
  for (StableTensor &sum : sumRows(*rows, rows->gradient.dtype))
    results.push_back(std::move(sum));
  return results;
}

StandIn sextant::runtime::findNormOperator(std::string_view op) {
  return op == "aten::native_layer_norm_backward" ? layerNormBackward : nullptr;
}
