//===- EmbeddingOperatorsTest.cpp - Gradients of rows on a GPU ------------===//
//
// What is called on a GPU in place of ATen's gradient of an embedding is made
// of operators that the CPU has as well. Both are compared with sums in f64.
//
//===----------------------------------------------------------------------===//

#include "DevicePrograms.h"
#include "ProgramRunner.h"
#include "runtime/NarrowFloats.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchCudaDevice.h"
#include "runtime/torch/TorchDevice.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sextant;
using namespace sextant::runtime;

static constexpr char name[] = "aten::embedding_dense_backward";

/// The operator itself, where it adds in one order.
static std::vector<torch::stable::Tensor>
callOnHost(const CallArguments &arguments, TorchPlace place) {
  return callByName(name, arguments, place);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static Tensor allocate(DType dtype, const std::vector<int64_t> &sizes) {
  return *getTorchDevice().allocate(getTorchDevice().state, dtype, sizes);
}

template <typename T> static T *getAddress(const Tensor &tensor, int64_t i) {
  return static_cast<T *>(tensor.data) + i;
}

static double getElement(const Tensor &tensor, int64_t i) {
  switch (tensor.dtype) {
  case DType::F64:
    return *getAddress<double>(tensor, i);
  case DType::F32:
    return *getAddress<float>(tensor, i);
  case DType::BF16:
    return decodeBF16(*getAddress<uint16_t>(tensor, i));
  case DType::F16:
    return decodeF16(*getAddress<uint16_t>(tensor, i));
  case DType::I32:
    return *getAddress<int32_t>(tensor, i);
  default:
    return static_cast<double>(*getAddress<int64_t>(tensor, i));
  }
}

static void setElement(Tensor &tensor, int64_t i, double value) {
  switch (tensor.dtype) {
  case DType::F64:
    *getAddress<double>(tensor, i) = value;
    return;
  case DType::F32:
    *getAddress<float>(tensor, i) = static_cast<float>(value);
    return;
  case DType::BF16:
    *getAddress<uint16_t>(tensor, i) = encodeBF16(value);
    return;
  case DType::F16:
    *getAddress<uint16_t>(tensor, i) = encodeF16(value);
    return;
  case DType::I32:
    *getAddress<int32_t>(tensor, i) = static_cast<int32_t>(value);
    return;
  default:
    *getAddress<int64_t>(tensor, i) = static_cast<int64_t>(value);
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {

/// A gradient of rows that were taken, and their indices: half of them are the
/// first row of the table, none is the last.
struct Taken {
  Tensor gradient, indices;
  int64_t rows, columns;

  Taken(std::vector<int64_t> shape, int64_t rows, int64_t columns, DType dtype,
        DType integer);

  CallArguments getArguments() const {
    return {CallArgument::of(toTorch(gradient)),
            CallArgument::of(toTorch(indices)),
            CallArgument::of(ArgumentKind::Int, rows),
            CallArgument::of(ArgumentKind::Int, -1),
            CallArgument::of(ArgumentKind::Bool, 0)};
  }

  /// Rounded to the sum's type at each addition, and to the result's once.
  void expectSums(const Tensor &result, double sumUnit, double unit) const;
};

} // namespace

Taken::Taken(std::vector<int64_t> shape, int64_t rows, int64_t columns,
             DType dtype, DType integer)
    : indices(allocate(integer, shape)), rows(rows), columns(columns) {
  shape.push_back(columns);
  gradient = allocate(dtype, shape);
  std::mt19937 random(test::freshSeed());
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> row(-rows + 2, rows - 2);
  for (int64_t i = 0; i < indices.elements(); ++i)
    setElement(indices, i,
               static_cast<double>(std::max<int64_t>(0, row(random))));
  for (int64_t i = 0; i < gradient.elements(); ++i)
    setElement(gradient, i, normal(random));
}

void Taken::expectSums(const Tensor &result, double sumUnit,
                       double unit) const {
  ASSERT_EQ(result.dtype, gradient.dtype);
  ASSERT_EQ(formatShape(result.shape()), formatShape({{rows, columns}}));
  auto size = static_cast<size_t>(rows * columns);
  std::vector<double> sums(size), magnitudes(size), counts(size);
  for (int64_t i = 0; i < gradient.elements(); ++i) {
    auto row = static_cast<int64_t>(getElement(indices, i / columns));
    auto at = static_cast<size_t>(row * columns + i % columns);
    sums[at] += getElement(gradient, i);
    magnitudes[at] += std::fabs(getElement(gradient, i));
    ++counts[at];
  }
  for (size_t i = 0; i < size; ++i)
    ASSERT_NEAR(getElement(result, static_cast<int64_t>(i)), sums[i],
                counts[i] * sumUnit * magnitudes[i] +
                    2 * unit * std::fabs(sums[i]))
        << "element " << i;
}

static const std::vector<int64_t> shapes[] = {{5000}, {4, 25, 50}, {3, 7},
                                              {},     {0},         {2, 0}};
static constexpr double unitOfF64 = 0x1p-53, unitOfF32 = 0x1p-24,
                        unitOfF16 = 0x1p-11, unitOfBF16 = 0x1p-8;

TEST(EmbeddingOperators, BothFormsAddUpRows) {
  for (const std::vector<int64_t> &shape : shapes)
    for (DType integer : {DType::I64, DType::I32})
      // ATen has kernels for CUDA of one column, of few and of many.
      for (int64_t columns : {1, 5, 40})
        for (auto [dtype, unit] : {std::pair(DType::F32, unitOfF32),
                                   std::pair(DType::F64, unitOfF64)}) {
          SCOPED_TRACE(formatShape(shape) + " " + std::to_string(columns));
          Taken taken(shape, 17, columns, dtype, integer);
          for (StandIn form : {findGpuOperator(name), &callOnHost})
            taken.expectSums(*fromTorch(form(taken.getArguments(), {}).at(0)),
                             unit, 0);
        }
}

TEST(EmbeddingOperators, SumsOfWhatIsNarrowAreThoseOfF32) {
  for (auto [dtype, unit] :
       {std::pair(DType::BF16, unitOfBF16), std::pair(DType::F16, unitOfF16)}) {
    Taken taken({5000}, 17, 40, dtype, DType::I64);
    taken.expectSums(
        *fromTorch(findGpuOperator(name)(taken.getArguments(), {}).at(0)),
        unitOfF32, unit);
  }
}

TEST(EmbeddingOperators, OperandsMayBeStrided) {
  Taken turned({70, 60}, 9, 6, DType::F32, DType::I64);
  Taken taken({60, 70}, 9, 6, DType::F32, DType::I64);
  CallArguments arguments = turned.getArguments();
  for (size_t i : {0, 1}) {
    arguments[i] = CallArgument::of(
        callByName("aten::transpose.int",
                   {arguments[i], CallArgument::of(ArgumentKind::Int, 0),
                    CallArgument::of(ArgumentKind::Int, 1)},
                   {})
            .at(0));
    callByName("aten::copy_",
               {arguments[i], taken.getArguments()[i],
                CallArgument::of(ArgumentKind::Bool, 0)},
               {});
  }
  taken.expectSums(*fromTorch(findGpuOperator(name)(arguments, {}).at(0)),
                   unitOfF32, 0);
}

/// No model leaves out rows or divides them, which the operator can.
TEST(EmbeddingOperators, EachRowCountsOnce) {
  std::string bytes = test::compileForHost(R"(
func.func @f(%g: tensor<?x2xf32>, %i: tensor<?xi64>) -> tensor<3x2xf32> {
  %0 = exec.dense "aten::embedding_dense_backward"(%g, %i : tensor<?x2xf32>, tensor<?xi64>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, 3 : i64, 0 : i64, false] -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
})");
  Device gpu = getTorchDevice();
  gpu.resolve = resolveOnGpu;
  Taken taken({4}, 3, 2, DType::F32, DType::I64);
  std::vector<Tensor> operands{taken.gradient, taken.indices};
  Trace nothing;
  EXPECT_TRUE(static_cast<bool>(
      execute(*test::load(bytes, getTorchDevice()), 0, operands, nothing)));
  auto results = execute(*test::load(bytes, gpu), 0, operands, nothing);
  ASSERT_FALSE(static_cast<bool>(results));
  EXPECT_EQ(
      results.error().message(),
      "'f', instruction 0 (aten::embedding_dense_backward): on a GPU each "
      "row counts once: padding_idx must be -1 and scale_grad_by_freq "
      "false (of 'arg0', 'arg1')");
}
