//===- DenseCallTest.cpp - Where the results of ATen's operators lie ------===//
//
// A program on a GPU may call operators that make tensors of nothing. PyTorch's
// meta device stands for the GPU: it computes nothing, but refuses tensors of
// two places as a GPU does.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "DevicePrograms.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/torch/TorchDevice.h"
#include "gtest/gtest.h"

using namespace sextant;
using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;

static const TorchPlace meta{aoti_torch_device_type_meta(), 0};

static StableTensor makeTensorAt(TorchPlace place, DType dtype) {
  const int64_t sizes[] = {3}, strides[] = {1};
  AtenTensorHandle handle;
  checkTorch(aoti_torch_empty_strided(1, sizes, strides, getTorchDType(dtype),
                                      place.type, place.index, &handle),
             "aoti_torch_empty_strided");
  return StableTensor(handle);
}

static CallArgument makeArgument(ArgumentKind kind, double value) {
  CallArgument argument;
  argument.kind = kind;
  argument.number = static_cast<int64_t>(value);
  argument.real = value;
  return argument;
}

static CallArgument makeArgument(StableTensor tensor) {
  CallArgument argument;
  argument.kind = ArgumentKind::Tensor;
  argument.tensors = {std::move(tensor)};
  return argument;
}

/// Of an operator that takes these arguments and leaves the others out.
static void expectOnMeta(const char *op, CallArguments arguments) {
  SCOPED_TRACE(op);
  Result<Schema> schema = findSchema(op);
  ASSERT_TRUE(static_cast<bool>(schema));
  arguments.resize(schema->arguments.size());
  StandIn standIn = findScalarOperator(op);
  try {
    std::vector<StableTensor> results =
        standIn ? standIn(arguments, meta)
                : callOperator(*schema, arguments, meta);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(getPlace(results[0]).type, meta.type);
  } catch (const std::exception &error) {
    ADD_FAILURE() << error.what();
  }
}

TEST(DenseCall, TensorsOfNothingAreWhereTheProgramRuns) {
  CallArgument sizes, one = makeArgument(ArgumentKind::Int, 1);
  sizes.kind = ArgumentKind::Ints;
  sizes.numbers = {2, 3};
  CallArgument real = makeArgument(ArgumentKind::Float, 0.5);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::I32}) {
    CallArgument type = makeArgument(ArgumentKind::DType, double(dtype));
    expectOnMeta("aten::full", {sizes, one, type});
    expectOnMeta("aten::scalar_tensor", {one, type});
    expectOnMeta("aten::arange", {makeArgument(ArgumentKind::Int, 4), type});
  }
  expectOnMeta("aten::full", {sizes, real});
  expectOnMeta("aten::zeros_like",
               {makeArgument(makeTensorAt(meta, DType::F32))});
}

TEST(DenseCall, ScalarsMeetTensorsOfAnyPlace) {
  CallArgument two = makeArgument(ArgumentKind::Int, 2),
               one = makeArgument(ArgumentKind::Int, 1),
               minus = makeArgument(ArgumentKind::Int, -1);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::I32}) {
    SCOPED_TRACE(getName(dtype));
    CallArgument self = makeArgument(makeTensorAt(meta, dtype));
    for (const CallArgument &factor : {one, minus}) {
      expectOnMeta("aten::add.Scalar", {self, two, factor});
      expectOnMeta("aten::add.Tensor", {self, self, factor});
      expectOnMeta("aten::add_.Tensor", {self, self, factor});
      expectOnMeta("aten::sub.Tensor", {self, self, factor});
    }
    for (const char *op :
         {"aten::mul.Scalar", "aten::mul_.Scalar", "aten::div.Scalar",
          "aten::pow.Tensor_Scalar", "aten::ne.Scalar", "aten::fill_.Scalar"})
      expectOnMeta(op, {self, two});
  }
}

/// A device of LibTorch whose programs are told that they run elsewhere.
static Device makeDeviceElsewhere() {
  Device device = getTorchDevice();
  device.call = [](void *, const ResolvedOperator &resolved, const Dense &call,
                   std::span<const Tensor> tensors,
                   std::span<const int64_t> integers) {
    return callDense({aoti_torch_device_type_cuda(), 1}, resolved, call,
                     tensors, integers);
  };
  return device;
}

TEST(DenseCall, AResultElsewhereIsNamed) {
  std::string bytes = test::compileForHost(R"(
func.func @turn(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %y = exec.dense "aten::cos"(%x : tensor<4xf32>) arguments [#exec.tensor<0>] -> tensor<4xf32>
  %z = exec.dense "aten::neg"(%y : tensor<4xf32>) arguments [#exec.tensor<0>] -> tensor<4xf32>
  return %z : tensor<4xf32>
})");
  const int64_t sizes[] = {4};
  std::vector<Tensor> x{
      *getTorchDevice().allocate(getTorchDevice().state, DType::F32, sizes)};
  Device device = makeDeviceElsewhere();
  std::unique_ptr<Program> program = test::load(bytes, device);
  Trace nothing;
  auto results = execute(*program, *program->find("turn"), x, nothing);
  ASSERT_FALSE(static_cast<bool>(results));
  EXPECT_EQ(results.error().message(),
            "'turn', instruction 0 (aten::cos): its result 0 is on cpu but the "
            "program runs on cuda:1 (of 'arg0')");
}
