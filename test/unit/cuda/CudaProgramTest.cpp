//===- CudaProgramTest.cpp - Programs on a GPU ----------------------------===//
//
// An attention and its gradients give the same bits on a stub of a GPU as on
// the host, and a step of them makes the calls of the driver that it should: no
// one that waits, and no one that copies from the host.
//
//===----------------------------------------------------------------------===//

#include "DevicePrograms.h"
#include "ProgramRunner.h"
#include "StubGpu.h"
#include "runtime/Initialize.h"
#include "runtime/Profile.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sextant;
using namespace sextant::runtime;
using cuda::CudaDevice;
using test::compileForHost, test::expectSameBits, test::freshSeed, test::load;
using test::loadOnStub, test::makeStubGpu, test::resetStub, test::runOn;
using test::StubDriver, test::StubProgram;

static constexpr int64_t batch = 2, heads = 2, length = 37;

static Tensor makeNormal(std::vector<int64_t> sizes, const char *name,
                         unsigned seed) {
  double infinity = std::numeric_limits<double>::infinity();
  Tensor tensor = *allocateOnHost(DType::F32, sizes);
  EXPECT_TRUE(static_cast<bool>(fillTensor(
      tensor, {artifact::Init::Normal, 0.0, 1.0, -infinity, infinity}, name,
      seed)));
  return tensor;
}

/// Positions are `step` apart.
static std::vector<Tensor> makeInputs(unsigned seed, int32_t step) {
  std::vector<int64_t> shape{batch, length, 1};
  Tensor at = *allocateOnHost(DType::I32, shape);
  for (int64_t i = 0; i < batch * length; ++i)
    static_cast<int32_t *>(at.data)[i] =
        static_cast<int32_t>(i % length - length / 2) * step;
  return {makeNormal({batch, heads, length, 8}, "q", seed), at,
          makeNormal({32, heads}, "table", seed),
          makeNormal({16}, "thresholds", seed),
          makeNormal({batch, heads, length}, "dlse", seed)};
}

static void expectSameResults(const Program &program, const Program &other) {
  std::vector<Tensor> inputs = makeInputs(freshSeed(), 1);
  Trace nothing;
  std::vector<Tensor> results = runOn(program, 0, inputs, nothing);
  std::vector<Tensor> expected = runOn(other, 0, inputs, nothing);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i)
    expectSameBits(results[i], expected[i], std::to_string(i));
}

namespace {

class CudaProgram : public testing::Test {
protected:
  StubDriver &stub = resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  std::string bytes = compileForHost(test::attentionOfPositions);
  std::unique_ptr<StubProgram> ours = loadOnStub(bytes, device->device);
};

} // namespace

TEST_F(CudaProgram, SameBitsAsOnTheHost) {
  expectSameResults(*ours->program, *load(bytes, getHostDevice()));
}

/// A step's calls: no memory of the host is read or waited for, but for the
/// checks of data, which are two.
TEST_F(CudaProgram, AStepWaitsForNothing) {
  std::vector<Tensor> inputs = makeInputs(freshSeed(), 1);
  auto there = *copyToDevice(device->device, inputs);
  Trace nothing;
  ASSERT_TRUE(static_cast<bool>(execute(*ours->program, 0, there, nothing)));
  stub.log.clear();
  stub.waits = 0;
  stub.capturing = true; // where each call that may wait is an error
  auto results = execute(*ours->program, 0, there, nothing);
  stub.capturing = false;
  ASSERT_TRUE(static_cast<bool>(results)) << results.error().message();
  EXPECT_EQ(stub.waits, 0);
  auto count = [&](std::string_view prefix) {
    return std::count_if(
        stub.log.begin(), stub.log.end(),
        [&](const std::string &call) { return call.starts_with(prefix); });
  };
  const Function &function = ours->program->getArtifact().functions[0];
  int64_t launches = 0, checks = 0;
  for (const Instruction &instruction : function.instructions) {
    launches += std::holds_alternative<Launch>(instruction.body);
    checks += std::holds_alternative<CheckData>(instruction.body);
  }
  EXPECT_GT(launches, 5);
  EXPECT_EQ(checks, 4); // two of the forward, two of the backward
  EXPECT_EQ(count("cuLaunchKernel "), launches);
  EXPECT_EQ(count("cuMemcpyDtoHAsync"), checks);
  for (const std::string &call : stub.log)
    EXPECT_TRUE(call.starts_with("cuLaunchKernel ") ||
                call == "cuMemAllocAsync" || call == "cuMemFreeAsync" ||
                call == "cuMemsetD8Async" || call == "cuMemcpyDtoHAsync")
        << call;
}

/// Machine code of an assembler that is newer than the driver, which compiles
/// the PTX instead. It is asked once for each.
TEST_F(CudaProgram, AnOldDriverTakesThePtx) {
  std::unique_ptr<StubProgram> program =
      loadOnStub(bytes, device->device, "of a later version");
  ASSERT_TRUE(program->program);
  EXPECT_EQ(std::count(stub.log.begin(), stub.log.end(), "cuLibraryLoadData"),
            2);
  expectSameResults(*program->program, *ours->program);
}

/// As above, where the driver takes machine code without looking at it, and
/// refuses it when it is asked for a kernel.
TEST_F(CudaProgram, AnOldLazyDriverTakesThePtx) {
  std::unique_ptr<StubProgram> program =
      loadOnStub(bytes, device->device, "of a later version", /*isLazy=*/true);
  ASSERT_TRUE(program->program);
  expectSameResults(*program->program, *ours->program);
}

TEST_F(CudaProgram, CodeThatTheDriverRefuses) {
  Artifact artifact = std::move(*readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}));
  std::string_view bad = "bad";
  std::span<const uint8_t> code{reinterpret_cast<const uint8_t *>(bad.data()),
                                bad.size()};
  artifact.objects.push_back({ObjectKind::Cubin, "sm_90", {}, code});
  artifact.objects.push_back({ObjectKind::Ptx, "sm_80", {}, code});
  for (KernelName &name : artifact.kernels)
    name.deviceObjects = {1, 2};
  auto program = Program::load(std::move(artifact), device->device);
  ASSERT_FALSE(static_cast<bool>(program));
  EXPECT_EQ(
      program.error().message(),
      "object 1 of the artifact, machine code for 'sm_90': cuLibraryLoadData: "
      "CUDA_ERROR_INVALID_IMAGE (what the stub says of it): update NVIDIA's "
      "driver, or compile the model for this device; object 2 of the artifact, "
      "PTX for 'sm_80': cuLibraryLoadData: CUDA_ERROR_INVALID_PTX (what the "
      "stub says of it): update NVIDIA's driver, or compile the model for this "
      "device; the driver says: line 1: no stub");
}

/// Data that is refused does no harm, and the next call says so.
TEST_F(CudaProgram, PositionsTooFarApart) {
  unsigned seed = freshSeed();
  auto far = *copyToDevice(device->device, makeInputs(seed, 100000000));
  auto near = *copyToDevice(device->device, makeInputs(seed, 1));
  Trace nothing;
  EXPECT_TRUE(static_cast<bool>(execute(*ours->program, 0, far, nothing)));
  auto results = execute(*ours->program, 0, near, nothing);
  ASSERT_FALSE(static_cast<bool>(results));
  EXPECT_EQ(results.error().message(),
            "1 call ago: 'f': key minus query positions do not fit 32 bits as "
            "a difference (axis 0) (3600000000 and 2147483647)");
}

static Tensor makeInteger(int64_t value) {
  Tensor tensor = *allocateOnHost(DType::I64, {});
  *static_cast<int64_t *>(tensor.data) = value;
  return tensor;
}

/// What `nn.require` becomes: its error is of a later call and shows no
/// numbers.
TEST(CudaConditions, HoldOrAreRefusedLater) {
  resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  auto loaded = loadOnStub(test::compileForDrawing(R"(
    func.func @f(%every: tensor<1xi64>, %x: tensor<?x7xbf16>, %seed: tensor<i64>)
        -> tensor<?x7xbf16> {
      %holds = arith.constant 1 : index
      exec.check_data %every[0] is %holds, "a position is negative" : tensor<1xi64>
      %m = exec.dense "aten::bernoulli.p"(%x, %seed, %seed, %seed
          : tensor<?x7xbf16>, tensor<i64>, tensor<i64>, tensor<i64>)
        arguments [#exec.tensor<0>, 0.7, #exec.tensors<[1, 2, 3]>] -> tensor<?x7xbf16>
      return %m : tensor<?x7xbf16>
    })"),
                           device->device);
  auto run = [&](int64_t condition) {
    Tensor word = *allocateOnHost(DType::I64, {{1}});
    *static_cast<int64_t *>(word.data) = condition;
    std::vector<Tensor> inputs{word, *allocateOnHost(DType::BF16, {{3, 7}}),
                               makeInteger(0)};
    Trace nothing;
    auto results = execute(*loaded->program, 0,
                           *copyToDevice(device->device, inputs), nothing);
    return results ? "no error" : results.error().message();
  };
  EXPECT_EQ(run(1), "no error");
  EXPECT_EQ(run(0), "no error");
  EXPECT_EQ(run(1), "1 call ago: 'f': a position is negative");
  EXPECT_EQ(run(1), "no error");
}

static const char mask[] = R"(
func.func @f(%x: tensor<?x7xbf16>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<?x7xbf16> {
  %place = arith.constant dense<5> : tensor<i64>
  %m = exec.dense "aten::bernoulli.p"(%x, %seed, %step, %place
      : tensor<?x7xbf16>, tensor<i64>, tensor<i64>, tensor<i64>)
    arguments [#exec.tensor<0>, 0.7, #exec.tensors<[1, 2, 3]>] -> tensor<?x7xbf16>
  return %m : tensor<?x7xbf16>
})";

/// A mask has the bits that the runtime draws on the host; its numbers stay
/// where they are, also in a captured call.
TEST(CudaMasks, AreDrawnThere) {
  StubDriver &stub = resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  auto loaded = loadOnStub(test::compileForDrawing(mask), device->device);
  const Program &program = *loaded->program;
  constexpr int64_t rows = 1501; // items of several blocks, the last one short
  int64_t seed = -(int64_t(1) << 62) + freshSeed(), step = 4294967291;
  std::vector<Tensor> inputs{*allocateOnHost(DType::BF16, {{rows, 7}}),
                             makeInteger(seed), makeInteger(step)};
  auto there = *copyToDevice(device->device, inputs);
  Trace nothing;
  ASSERT_TRUE(static_cast<bool>(execute(program, 0, there, nothing)));
  stub.waits = 0;
  stub.capturing = true;
  auto results = execute(program, 0, there, nothing);
  stub.capturing = false;
  ASSERT_TRUE(static_cast<bool>(results)) << results.error().message();
  EXPECT_EQ(stub.waits, 0);
  auto back = copyToHost(device->device, *results);
  ASSERT_TRUE(static_cast<bool>(back)) << back.error().message();
  const auto *words = static_cast<const uint16_t *>((*back)[0].data);
  for (int64_t i = 0; i < rows * 7; ++i) {
    auto drawn = computePhilox(
        {static_cast<uint32_t>(i / 4), 0, static_cast<uint32_t>(step), 5},
        {static_cast<uint32_t>(seed),
         static_cast<uint32_t>(seed >> 32)})[i % 4];
    ASSERT_EQ(words[i], drawn < std::llround(0.7 * 0x1p32) ? 0x3f80 : 0) << i;
  }
}

/// Work of a program that goes may still read its constants, and so may each
/// replay of a graph that has captured it.
TEST(CudaMasks, ConstantsOutliveTheirProgram) {
  StubDriver &stub = resetStub();
  int64_t before = stub.liveBytes;
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  auto loaded = loadOnStub(test::compileForDrawing(mask), device->device);
  int64_t constants = stub.liveBytes - before;
  EXPECT_GE(constants, 8); // the place
  loaded.reset();
  EXPECT_EQ(stub.liveBytes - before, constants);
}

/// A step that does not fit is an error of a later call.
TEST(CudaMasks, StepsFit) {
  resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  auto loaded = loadOnStub(test::compileForDrawing(mask), device->device);
  auto run = [&](int64_t step) {
    std::vector<Tensor> inputs{*allocateOnHost(DType::BF16, {{3, 7}}),
                               makeInteger(1), makeInteger(step)};
    Trace nothing;
    auto results = execute(*loaded->program, 0,
                           *copyToDevice(device->device, inputs), nothing);
    return results ? "no error" : results.error().message();
  };
  EXPECT_EQ(run(int64_t(1) << 32), "no error");
  EXPECT_EQ(run(0), "1 call ago: 'f': the step of a generator must be in 0 .. "
                    "2^32 - 1 (4294967296 and 4294967295)");
}

/// An index outside of a table takes the nearest row until it is refused.
TEST(CudaIndices, KeepToTheTable) {
  std::string bytes = compileForHost(R"(
    func.func @f(%x: tensor<?x8xf32>, %i: tensor<?x?xi64>) -> tensor<?x?x8xf32> {
      %y = pos.map_rows %x[%i] of embedding uses [#pos.use<@sinusoidal, "waves">]
        : tensor<?x8xf32>[tensor<?x?xi64>] -> tensor<?x?x8xf32>
      return %y : tensor<?x?x8xf32>
    })");
  resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  std::unique_ptr<StubProgram> ours = loadOnStub(bytes, device->device);
  std::unique_ptr<Program> theirs = load(bytes, getHostDevice());
  Tensor table = makeNormal({5, 8}, "x", freshSeed());
  auto makeIndices = [](std::initializer_list<int64_t> numbers) {
    std::vector<int64_t> shape{1, static_cast<int64_t>(numbers.size())};
    Tensor tensor = *allocateOnHost(DType::I64, shape);
    std::copy(numbers.begin(), numbers.end(),
              static_cast<int64_t *>(tensor.data));
    return tensor;
  };
  Trace nothing;
  std::vector<Tensor> inputs{
      table, makeIndices({3, -1, 5, int64_t(1) << 40, 0, INT64_MIN})};
  auto there = *copyToDevice(device->device, inputs);
  auto results = execute(*ours->program, 0, there, nothing);
  ASSERT_TRUE(static_cast<bool>(results)) << results.error().message();
  inputs[1] = makeIndices({3, 0, 4, 4, 0, 0});
  std::vector<Tensor> expected = runOn(*theirs, 0, inputs, nothing);
  // Reading the result waits for the device, and is told.
  auto back = copyToHost(device->device, *results);
  ASSERT_FALSE(static_cast<bool>(back));
  EXPECT_EQ(back.error().message(),
            "'f': an index of a row is negative: the least index and the first "
            "row of the table (-2147483648 and 0)");
  back = copyToHost(device->device, *results);
  ASSERT_FALSE(static_cast<bool>(back));
  EXPECT_EQ(back.error().message(),
            "'f': an index of a row is beyond its table: the greatest index "
            "and the last row (2147483647 and 4)");
  back = copyToHost(device->device, *results);
  ASSERT_TRUE(static_cast<bool>(back)) << back.error().message();
  expectSameBits((*back)[0], expected[0], "rows");
}

/// The stub's time is a millisecond for each call.
TEST_F(CudaProgram, ProfilesByEvents) {
  auto there = *copyToDevice(device->device, makeInputs(freshSeed(), 1));
  {
    Profile another(ours->program->getArtifact());
    ASSERT_TRUE(static_cast<bool>(execute(*ours->program, 0, there, another)));
  }
  EXPECT_EQ(stub.liveEvents, 0);
  Profile profile(ours->program->getArtifact());
  auto results = execute(*ours->program, 0, there, profile);
  ASSERT_TRUE(static_cast<bool>(results)) << results.error().message();
  int64_t last = 0;
  for (const ProfileEvent &event : profile.getEvents()) {
    EXPECT_GE(event.begin, last);
    EXPECT_GE(event.end - event.begin, 1000000);
    EXPECT_EQ((event.end - event.begin) % 1000000, 0);
    EXPECT_GE(event.cost.items, 0);
    last = event.end;
  }
  EXPECT_GT(profile.getEvents().size(), 5u);
}

TEST_F(CudaProgram, NoCodeForTheGpu) {
  Artifact artifact = std::move(*readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}));
  std::string target = artifact.target;
  std::string kernel = artifact.kernels[0].name;
  artifact.objects.push_back({ObjectKind::Cubin, "sm_80", {}, {}});
  artifact.objects.push_back({ObjectKind::Ptx, "sm_100a", {}, {}});
  for (KernelName &name : artifact.kernels)
    name.deviceObjects = {1, 2};
  auto program = Program::load(std::move(artifact), device->device);
  ASSERT_FALSE(static_cast<bool>(program));
  EXPECT_EQ(program.error().message(),
            "kernel '" + kernel +
                "' is machine code for 'sm_80' and PTX for 'sm_100a', which "
                "the device 'cuda:0 (Stub GPU, sm_90)' does not run: the "
                "program was compiled for '" +
                target + "', compile it for this device");
}

TEST_F(CudaProgram, CodeOfTheHostOnly) {
  auto program = Program::load(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()},
      device->device);
  ASSERT_FALSE(static_cast<bool>(program));
  EXPECT_NE(program.error().message().find(
                "' is code of the host, which the device 'cuda:0 (Stub GPU, "
                "sm_90)' does not run"),
            std::string::npos)
      << program.error().message();
}
