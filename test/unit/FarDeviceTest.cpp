//===- FarDeviceTest.cpp - Programs whose memory is not the host's --------===//
//
// A program gives the same bits on a device whose addresses the host cannot
// read as on the host.
//
//===----------------------------------------------------------------------===//

#include "FarDevice.h"
#include "DevicePrograms.h"
#include "ProgramRunner.h"
#include "runtime/Initialize.h"
#include "runtime/Profile.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <random>

using namespace sextant;
using namespace sextant::runtime;
using test::compileForHost, test::expectSameBits, test::FarDevice;
using test::freshSeed, test::load, test::runOn;

static Tensor makeNormal(std::vector<int64_t> sizes, const char *name,
                         unsigned seed) {
  double infinity = std::numeric_limits<double>::infinity();
  Tensor tensor = *allocateOnHost(DType::F32, sizes);
  EXPECT_TRUE(static_cast<bool>(fillTensor(
      tensor, {artifact::Init::Normal, 0.0, 1.0, -infinity, infinity}, name,
      seed)));
  return tensor;
}

TEST(FarDevice, TheHostCannotReadIt) {
  FarDevice far(getHostDevice());
  const Device &device = far;
  std::vector<int64_t> sizes{4};
  Tensor tensor = *device.allocate(device.state, DType::F32, sizes);
  auto read = [&] {
    volatile float value = static_cast<const float *>(tensor.data)[0];
    (void)value;
  };
  EXPECT_EXIT(read(), testing::KilledBySignal(SIGSEGV), "");
}

TEST(FarDevice, CopiesKeepStrides) {
  FarDevice far(getHostDevice());
  Tensor x = makeNormal({3, 5}, "x", freshSeed());
  std::swap(x.sizes[0], x.sizes[1]);
  std::swap(x.strides[0], x.strides[1]);
  auto there = copyToDevice(far, {{x}});
  ASSERT_TRUE(static_cast<bool>(there));
  auto back = copyToHost(far, *there);
  ASSERT_TRUE(static_cast<bool>(back));
  Tensor &copy = (*back)[0];
  EXPECT_EQ(formatShape(copy.shape()), "[5, 3]");
  EXPECT_EQ(copy.strides[0], 1);
  EXPECT_NE(copy.data, x.data);
  EXPECT_EQ(std::memcmp(copy.data, x.data, 15 * sizeof(float)), 0);
  // Nothing is copied where the host reads the memory itself.
  auto same = copyToHost(getHostDevice(), {{x}});
  ASSERT_TRUE(static_cast<bool>(same));
  EXPECT_EQ((*same)[0].data, x.data);
}

// Constants go in once, elements come out, views are read where they are.
TEST(FarDevice, EveryInstruction) {
  std::string bytes = compileForHost(R"(
    func.func @f() -> (tensor<2x?xf32>, tensor<3x2xf32>) {
      %v = arith.constant dense<[4, -2, 9]> : tensor<3xi64>
      %c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
      %n = arith.constant 4 : index
      exec.check_data %v[0] at_most %n, "too many" : tensor<3xi64>
      %t = exec.alloc(%n) zero : tensor<2x?xf32>
      %u = exec.view %c permuted [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
      return %t, %u : tensor<2x?xf32>, tensor<3x2xf32>
    })");
  FarDevice far(getHostDevice());
  Trace nothing;
  std::vector<Tensor> results = runOn(*load(bytes, far), 0, {}, nothing);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(formatShape(results[0].shape()), "[2, 4]");
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(static_cast<float *>(results[0].data)[i], 0.0f);
  EXPECT_EQ(results[1].strides[0], 1);
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(static_cast<float *>(results[1].data)[i], 1.0f + float(i));
  EXPECT_EQ(far.calls.copiesIn, 2);
  EXPECT_EQ(far.calls.fills, 1);
  EXPECT_EQ(far.calls.copiesOut, 1 + 2); // the element, the results
}

// Given positions: what is in use of a table of offsets is known in memory of
// the device only. Far positions have offsets that no table holds.
TEST(FarDevice, AttentionOfGivenPositions) {
  std::string bytes = compileForHost(test::attentionOfPositions);
  FarDevice far(getHostDevice());
  std::unique_ptr<Program> nearProgram = load(bytes, getHostDevice());
  std::unique_ptr<Program> farProgram = load(bytes, far);
  unsigned seed = freshSeed();
  constexpr int64_t batch = 2, heads = 2, length = 37;
  for (int32_t step : {3, 100003}) {
    std::vector<int64_t> shape{batch, length, 1};
    Tensor at = *allocateOnHost(DType::I32, shape);
    std::mt19937 generator(seed);
    auto *positions = static_cast<int32_t *>(at.data);
    for (int64_t i = 0; i < batch * length; ++i)
      positions[i] =
          i % length == 0
              ? 0
              : positions[i - 1] + static_cast<int32_t>(1 + generator() % step);
    Tensor thresholds = makeNormal({16}, "thresholds", seed);
    for (int64_t i = 0; i < 16; ++i)
      static_cast<float *>(thresholds.data)[i] = 16.0f * std::exp2(0.2f * i);
    std::vector<Tensor> inputs{
        makeNormal({batch, heads, length, 8}, "q", seed), at,
        makeNormal({32, heads}, "table", seed), thresholds,
        makeNormal({batch, heads, length}, "dlse", seed)};
    Trace nothing;
    std::vector<Tensor> expected = runOn(*nearProgram, 0, inputs, nothing);
    Profile profile(farProgram->getArtifact()); // which asks for no memory
    std::vector<Tensor> results = runOn(*farProgram, 0, inputs, profile);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      expectSameBits(results[i], expected[i], std::to_string(i));
  }
  EXPECT_GT(far.calls.launches, 0);
}
