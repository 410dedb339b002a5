//===- TrainStepTest.cpp - A training step beyond the host's memory -------===//
//
// Two training steps of a small decoder, with LibTorch's operators and kernels
// of an attention, give the same bits on LibTorch's device, on one of the same
// memory whose addresses the host cannot read, and on a stub of a GPU.
//
//===----------------------------------------------------------------------===//

#include "DevicePrograms.h"
#include "FarDevice.h"
#include "ProgramRunner.h"
#include "cuda/StubGpu.h"
#include "runtime/Initialize.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/torch/TorchCudaDevice.h"
#include "runtime/torch/TorchDevice.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace sextant;
using namespace sextant::runtime;
using test::compileForHost, test::expectSameBits, test::FarDevice;
using test::freshSeed, test::load;

static const char decoder[] = R"(
nn.parameter "embedding" : tensor<11x8xf32> init normal [0.0, 0.5] decay
nn.parameter "norm" : tensor<8xf32> init constant [1.0]
nn.parameter "shift" : tensor<8xf32> init constant [0.0]
nn.parameter "query" : tensor<8x8xf32> init uniform [-0.4, 0.4] decay
nn.parameter "key" : tensor<8x8xf32> init uniform [-0.4, 0.4] decay
nn.parameter "value" : tensor<8x8xf32> init uniform [-0.4, 0.4] decay
nn.parameter "table" : tensor<32x2xf32> init normal [0.0, 0.4]
nn.parameter "thresholds" : tensor<16xf32> init given values dense<[
  16.0, 19.0, 21.0, 24.0, 27.0, 31.0, 35.0, 40.0, 46.0, 52.0, 59.0, 67.0, 77.0, 87.0, 99.0, 113.0
]> : tensor<16xf32> frozen

func.func @loss(%tokens: tensor<?x?xi64> {exec.name = "tokens", exec.dims = ["batch", "length"]},
                %labels: tensor<?x?xi64> {exec.name = "labels", exec.dims = ["batch", "length"]},
                %embedding: tensor<11x8xf32> {nn.parameter = "embedding"},
                %norm: tensor<8xf32> {nn.parameter = "norm"},
                %shift: tensor<8xf32> {nn.parameter = "shift"},
                %wq: tensor<8x8xf32> {nn.parameter = "query"},
                %wk: tensor<8x8xf32> {nn.parameter = "key"},
                %wv: tensor<8x8xf32> {nn.parameter = "value"},
                %table: tensor<32x2xf32> {nn.parameter = "table"},
                %thresholds: tensor<16xf32> {nn.parameter = "thresholds"})
    -> (tensor<f32> {exec.name = "loss"})
    attributes {nn.gradients = @gradients, nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.999,
      epsilon = 1.0e-8, decay = 0.01, clip = 1.0, update = @update, train_step = @train_step>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %batch = tensor.dim %tokens, %c0 : tensor<?x?xi64>
  %length = tensor.dim %tokens, %c1 : tensor<?x?xi64>
  %count = arith.muli %batch, %length : index
  %x = nn.embedding %embedding, %tokens : (tensor<11x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
  %n, %mean, %deviation = nn.layer_norm %x, %norm, %shift epsilon 1.0e-5
    : (tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32>)
    -> (tensor<?x?x8xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>)
  %q0 = nn.linear %n, %wq : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> (tensor<?x?x8xf32>)
  %k0 = nn.linear %n, %wk : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> (tensor<?x?x8xf32>)
  %v0 = nn.linear %n, %wv : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> (tensor<?x?x8xf32>)
  %q1 = nn.reshape %q0 sizes(%batch, %length) : tensor<?x?x8xf32> -> tensor<?x?x2x4xf32>
  %k1 = nn.reshape %k0 sizes(%batch, %length) : tensor<?x?x8xf32> -> tensor<?x?x2x4xf32>
  %v1 = nn.reshape %v0 sizes(%batch, %length) : tensor<?x?x8xf32> -> tensor<?x?x2x4xf32>
  %q = nn.transpose %q1 1, 2 : (tensor<?x?x2x4xf32>) -> (tensor<?x2x?x4xf32>)
  %k = nn.transpose %k1 1, 2 : (tensor<?x?x2x4xf32>) -> (tensor<?x2x?x4xf32>)
  %v = nn.transpose %v1 1, 2 : (tensor<?x?x2x4xf32>) -> (tensor<?x2x?x4xf32>)
  %o, %lse = pos.attention %q, %k, (%v) uses [#pos.use<@causal, "causal">, #pos.use<@t5_bias, "t5">]
    params(%table, %thresholds : tensor<32x2xf32>, tensor<16xf32>)
    : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, (tensor<?x2x?x4xf32>)
    -> (tensor<?x2x?x4xf32>), tensor<?x2x?xf32>
  %o1 = nn.transpose %o 1, 2 : (tensor<?x2x?x4xf32>) -> (tensor<?x?x2x4xf32>)
  %o2 = nn.reshape %o1 sizes(%batch, %length) : tensor<?x?x2x4xf32> -> tensor<?x?x8xf32>
  %y = nn.add %x, %o2 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> (tensor<?x?x8xf32>)
  %logits = nn.linear %y, %embedding : (tensor<?x?x8xf32>, tensor<11x8xf32>) -> (tensor<?x?x11xf32>)
  %rows = nn.reshape %logits sizes(%count) : tensor<?x?x11xf32> -> tensor<?x11xf32>
  %all = nn.reshape %labels sizes(%count) : tensor<?x?xi64> -> tensor<?xi64>
  %logs = nn.log_softmax %rows : (tensor<?x11xf32>) -> (tensor<?x11xf32>)
  %loss, %weight = nn.nll_loss %logs, %all reduction mean ignore -100
    : (tensor<?x11xf32>, tensor<?xi64>) -> (tensor<f32>, tensor<f32>)
  return %loss : tensor<f32>
})";

namespace {

/// A training on a device. Tensors are in its memory from the first step to the
/// last.
class Training {
public:
  Training(const std::string &bytes, const Device &device)
      : own(load(bytes, device)), program(*own), device(device) {}
  explicit Training(const Program &program)
      : program(program), device(program.getDevice()) {}

  const Function &getFunction() const {
    return program.getArtifact().functions[function];
  }

  /// Tokens and labels are of the host. The parameters, their moments and the
  /// number of the step begin as the artifact says, and zero.
  void begin(std::span<const Tensor> given, unsigned seed);
  void step();

  /// What the last step gave, and what all steps changed, in the host's memory.
  std::vector<Tensor> getResults() const { return getValues(results); }
  std::vector<Tensor> getState() const { return getValues(state); }

private:
  std::vector<Tensor> getValues(std::span<const Tensor> tensors) const {
    return std::move(*copyToHost(device, tensors));
  }
  Tensor makeState(size_t argument, unsigned seed) const;

  std::unique_ptr<Program> own;
  const Program &program;
  const Device &device;
  size_t function = *program.find("train_step");
  std::vector<Tensor> state, results;
};

} // namespace

Tensor Training::makeState(size_t argument, unsigned seed) const {
  const TensorType &type = getFunction().tensors[argument];
  const std::string &name = getFunction().arguments[argument].name;
  Tensor tensor = *allocateOnHost(type.dtype, type.dims);
  const Artifact &artifact = program.getArtifact();
  for (const Parameter &parameter : artifact.parameters)
    if (parameter.name == name) {
      EXPECT_TRUE(static_cast<bool>(
          initializeParameter(artifact, parameter, seed, tensor)));
      return tensor;
    }
  double value = name == "learning_rate" ? 0.01 : name == "step" ? 1.0 : 0.0;
  EXPECT_TRUE(static_cast<bool>(fillTensor(
      tensor, {artifact::Init::Constant, value, 0.0, value, value}, name, 0)));
  return tensor;
}

void Training::begin(std::span<const Tensor> given, unsigned seed) {
  std::vector<Tensor> tensors(given.begin(), given.end());
  while (tensors.size() < getFunction().arguments.size())
    tensors.push_back(makeState(tensors.size(), seed));
  Result<std::vector<Tensor>> there = copyToDevice(device, tensors);
  ASSERT_TRUE(static_cast<bool>(there)) << there.error().message();
  state = std::move(*there);
}

void Training::step() {
  Trace nothing;
  auto given = execute(program, function, state, nothing);
  ASSERT_TRUE(static_cast<bool>(given)) << given.error().message();
  results = std::move(*given);
}

static Tensor makeTokens(unsigned seed) {
  std::vector<int64_t> shape{2, 21};
  Tensor tensor = *allocateOnHost(DType::I64, shape);
  std::mt19937 generator(seed);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    static_cast<int64_t *>(tensor.data)[i] = generator() % 11;
  return tensor;
}

TEST(TrainStep, OnADeviceWithMemoryOfItsOwn) {
  std::string bytes = compileForHost(decoder);
  FarDevice far(getTorchDevice());
  Training ours(bytes, far), theirs(bytes, getTorchDevice());
  unsigned seed = freshSeed();
  std::vector<Tensor> given{makeTokens(seed), makeTokens(seed + 1)};
  ours.begin(given, seed);
  theirs.begin(given, seed);
  std::vector<Tensor> before = ours.getState();
  float losses[2];
  for (float &loss : losses) {
    far.calls = {};
    ours.step();
    EXPECT_GT(far.calls.launches, 3);
    EXPECT_GT(far.calls.dense, 10);
    // The host waits for nothing.
    EXPECT_EQ(far.calls.copiesOut, 0);
    theirs.step();
    std::vector<Tensor> results = ours.getResults();
    std::vector<Tensor> expected = theirs.getResults();
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      expectSameBits(results[i], expected[i], ours.getFunction().results[i]);
    loss = *static_cast<const float *>(results[0].data);
  }
  EXPECT_TRUE(std::isfinite(losses[0]));
  EXPECT_LT(losses[1], losses[0]); // the steps train, at this rate
  std::vector<Tensor> state = ours.getState(), expected = theirs.getState();
  size_t changed = 0;
  for (size_t i = 0; i < state.size(); ++i) {
    expectSameBits(state[i], expected[i], ours.getFunction().arguments[i].name);
    auto size = state[i].elements() * getByteSize(state[i].dtype);
    changed += std::memcmp(state[i].data, before[i].data,
                           static_cast<size_t>(size)) != 0;
  }
  // Seven trained parameters and two moments of each, and maybe the step.
  EXPECT_GE(changed, 21u);
}

/// A stub of a GPU on LibTorch's memory, with the operators that are called on
/// a GPU, on the host.
static std::unique_ptr<cuda::CudaDevice> makeGpu() {
  auto allocate = [](void *, DType dtype, std::span<const int64_t> sizes) {
    const Device &torch = getTorchDevice();
    return torch.allocate(torch.state, dtype, sizes);
  };
  auto getStream = [](void *) -> Result<cuda::Stream> { return nullptr; };
  auto gpu = std::make_unique<cuda::CudaDevice>(
      *cuda::Gpu::open(test::openStub(), 0),
      cuda::CudaResources{allocate, getStream});
  gpu->device.resolve = resolveOnGpu;
  gpu->device.call = getTorchDevice().call;
  return gpu;
}

/// What a step asks of a driver: the launches and the fills of the program, in
/// its order. A launch of no items is none.
static void expectOrderOf(const Program &program, const Function &function,
                          const std::vector<std::string> &log) {
  size_t next = 0;
  std::vector<std::string> skipped;
  for (const Instruction &instruction : function.instructions) {
    std::string call;
    if (const auto *launch = std::get_if<Launch>(&instruction.body))
      call = "cuLaunchKernel " +
             program.getArtifact().kernels[launch->kernel].name + " ";
    else if (const auto *alloc = std::get_if<Alloc>(&instruction.body);
             alloc && alloc->zero)
      call = "cuMemsetD8Async";
    if (call.empty())
      continue;
    if (next < log.size() && log[next].starts_with(call))
      ++next;
    else
      skipped.push_back(call);
  }
  EXPECT_EQ(next, log.size()) << "out of order: " << log[next];
  // The sums of ranges, of which a short text has one.
  EXPECT_LE(skipped.size(), 2u) << skipped.front();
}

// A CUDA graph can capture a step: what waits is an error while the stub
// captures.
TEST(TrainStep, OnAGpu) {
  std::string bytes = compileForHost(decoder);
  test::StubDriver &stub = test::resetStub();
  std::unique_ptr<cuda::CudaDevice> gpu = makeGpu();
  std::unique_ptr<test::StubProgram> loaded =
      test::loadOnStub(bytes, gpu->device);
  Training ours(*loaded->program), theirs(bytes, getTorchDevice());
  unsigned seed = freshSeed();
  std::vector<Tensor> given{makeTokens(seed), makeTokens(seed + 1)};
  ours.begin(given, seed);
  theirs.begin(given, seed);
  for (int step = 0; step < 2; ++step) {
    stub.log.clear();
    stub.waits = 0;
    stub.capturing = step > 0;
    ours.step();
    stub.capturing = false;
    theirs.step();
    EXPECT_EQ(stub.waits, 0);
    int64_t launches = 0;
    for (const std::string &call : stub.log) {
      launches += call.starts_with("cuLaunchKernel ");
      EXPECT_TRUE(call.starts_with("cuLaunchKernel ") ||
                  call == "cuMemsetD8Async")
          << call;
    }
    EXPECT_GT(launches, 3);
    expectOrderOf(*loaded->program, ours.getFunction(), stub.log);
  }
  std::vector<Tensor> results = ours.getResults();
  std::vector<Tensor> expected = theirs.getResults();
  for (size_t i = 0; i < expected.size(); ++i)
    expectSameBits(results[i], expected[i], ours.getFunction().results[i]);
  std::vector<Tensor> state = ours.getState(), after = theirs.getState();
  for (size_t i = 0; i < after.size(); ++i)
    expectSameBits(state[i], after[i], ours.getFunction().arguments[i].name);
}

/// The number of different integers is known when the device has counted them:
/// a capture is told before ATen waits, and goes on.
TEST(TrainStep, SizesOfDataAreNotCaptured) {
  std::string bytes = compileForHost(R"(
    func.func @f(%x: tensor<?xi64>) -> tensor<?xi64> {
      %y, %places, %counts = nn.unique %x
        : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>)
      return %y : tensor<?xi64>
    })");
  test::StubDriver &stub = test::resetStub();
  std::unique_ptr<cuda::CudaDevice> gpu = makeGpu();
  std::unique_ptr<Program> program = load(bytes, gpu->device);
  std::vector<Tensor> sevens{*allocateOnHost(DType::I64, {{4}})};
  std::fill_n(static_cast<int64_t *>(sevens[0].data), 4, 7);
  auto given = *copyToDevice(gpu->device, sevens);
  Trace nothing;
  for (bool isCaptured : {false, true, false}) {
    stub.capturing = isCaptured;
    auto results = execute(*program, 0, given, nothing);
    stub.capturing = false;
    if (!isCaptured) {
      ASSERT_TRUE(static_cast<bool>(results)) << results.error().message();
      EXPECT_EQ((*results)[0].elements(), 1);
      continue;
    }
    ASSERT_FALSE(static_cast<bool>(results));
    std::string message = results.error().message();
    EXPECT_TRUE(message.starts_with("'f', instruction 0 (aten::_unique2)"))
        << message;
    EXPECT_TRUE(message.ends_with(
        ": the sizes of its results depend on data, which is waited for, so no "
        "CUDA graph can capture it: call 'f' outside of captures"))
        << message;
  }
}

// The PyTorch that tests run with is one without CUDA.
TEST(TrainStep, ATorchWithoutCuda) {
  Result<const Device *> device = getTorchCudaDevice(0);
  ASSERT_FALSE(static_cast<bool>(device));
  EXPECT_EQ(device.error().message(),
            "the PyTorch of this process has no CUDA: install one that has, or "
            "use tensors on the CPU");
}
