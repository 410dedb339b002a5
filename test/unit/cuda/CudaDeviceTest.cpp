//===- CudaDeviceTest.cpp - Launches, memory and errors of a GPU ----------===//
//
// What the runtime asks of the CUDA driver, on a stub of it: which code is
// taken, how a launch is spread, and what is said where something fails.
//
//===----------------------------------------------------------------------===//

#include "StubGpu.h"
#include "runtime/Executor.h"
#include "gtest/gtest.h"

using namespace sextant;
using namespace sextant::runtime;
using cuda::CudaDevice, cuda::Gpu;
using test::makeStubGpu, test::openStub, test::resetStub;
using test::StubBlock, test::StubDriver;

static Object makeObject(ObjectKind kind, const char *architecture,
                         std::string_view code = "stub k") {
  return {kind,
          architecture,
          {},
          {reinterpret_cast<const uint8_t *>(code.data()), code.size()}};
}

template <typename T> static std::string getError(const T &result) {
  return result ? "no error" : result.error().message();
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

TEST(CudaDriver, NoDriver) {
  std::string message = getError(cuda::Driver::open("libnone.so.1"));
  EXPECT_TRUE(message.starts_with("there is no CUDA driver: dlopen: "
                                  "libnone.so.1: "))
      << message;
  EXPECT_TRUE(message.ends_with("; install NVIDIA's driver, or use the CPU"))
      << message;
}

TEST(CudaDriver, NoLibraryOfTheDriver) {
  EXPECT_EQ(getError(cuda::Driver::open("libc.so.6")),
            "libc.so.6 is no CUDA driver: it does not tell its version "
            "(cuDriverGetVersion)");
}

TEST(CudaDriver, OldDriver) {
  resetStub().version = 11080;
  EXPECT_EQ(getError(cuda::Driver::open(SEXTANT_STUB_DRIVER)),
            std::string("the CUDA driver ") + SEXTANT_STUB_DRIVER +
                " is of CUDA 11.8, but programs need that of CUDA 12.0 or "
                "later: update NVIDIA's driver");
}

TEST(CudaDriver, NoDevice) {
  StubDriver &stub = resetStub();
  stub.failing = "cuInit";
  stub.failure = 100;
  EXPECT_EQ(getError(cuda::Driver::open(SEXTANT_STUB_DRIVER)),
            "cuInit: CUDA_ERROR_NO_DEVICE (what the stub says of it)");
  resetStub();
  EXPECT_EQ(getError(Gpu::open(openStub(), 3)),
            "there is no CUDA device 3: this process has 1 (see "
            "CUDA_VISIBLE_DEVICES)");
}

/// The stub holds the runtime to that, as the driver does: a thread need not
/// have one, and what it has is as it was.
TEST(CudaDriver, CallsAreOfAContext) {
  resetStub();
  cuda::Event event = nullptr;
  constexpr int invalidContext = 201;
  EXPECT_EQ(openStub().eventCreate(&event, 0), invalidContext);
  auto device = makeStubGpu();
  const Device &gpu = device->device;
  int64_t sizes[] = {4}, zeros[4], ones[4] = {1, 1, 1, 1};
  {
    Result<Tensor> tensor = gpu.allocate(gpu.state, DType::I64, sizes);
    ASSERT_TRUE(static_cast<bool>(tensor)) << tensor.error().message();
    EXPECT_TRUE(static_cast<bool>(
        gpu.copyIn(gpu.state, tensor->data, ones, sizeof(ones))));
    EXPECT_TRUE(static_cast<bool>(
        gpu.fillZero(gpu.state, tensor->data, sizeof(zeros))));
    EXPECT_TRUE(static_cast<bool>(
        gpu.copyOut(gpu.state, zeros, tensor->data, sizeof(zeros))));
    EXPECT_EQ(zeros[3], 0);
  }
  EXPECT_EQ(openStub().eventCreate(&event, 0), invalidContext);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

TEST(CudaCode, WhatAGpuRuns) {
  auto runs = [](int generation, int revision, ObjectKind kind,
                 const char *architecture) {
    Gpu gpu{&openStub(), 0, nullptr, "", {generation, revision, false}, 1};
    return gpu.runs(makeObject(kind, architecture));
  };
  constexpr auto cubin = ObjectKind::Cubin, ptx = ObjectKind::Ptx;
  EXPECT_TRUE(runs(8, 0, cubin, "sm_80"));
  EXPECT_TRUE(runs(8, 9, cubin, "sm_80"));
  EXPECT_FALSE(runs(8, 0, cubin, "sm_86"));
  EXPECT_FALSE(runs(9, 0, cubin, "sm_80"));
  EXPECT_TRUE(runs(9, 0, ptx, "sm_80"));
  EXPECT_TRUE(runs(12, 0, ptx, "sm_80"));
  EXPECT_FALSE(runs(7, 5, ptx, "sm_80"));
  EXPECT_TRUE(runs(9, 0, cubin, "sm_90a"));
  EXPECT_TRUE(runs(9, 0, ptx, "sm_90a"));
  EXPECT_FALSE(runs(10, 0, ptx, "sm_90a"));
  EXPECT_FALSE(runs(10, 3, cubin, "sm_90a"));
  for (const char *other : {"x86-64", "sm_", "sm_8", "sm_90ab", "sm_90f"})
    EXPECT_FALSE(runs(9, 0, ptx, other)) << other;
  EXPECT_FALSE(runs(9, 0, ObjectKind::SharedObject, "sm_90"));
}

TEST(CudaCode, PeakOfAGpu) {
  resetStub();
  auto device = makeStubGpu();
  auto peak = device->device.getPeak(device->device.state);
  ASSERT_TRUE(static_cast<bool>(peak));
  EXPECT_DOUBLE_EQ(peak->flops, 2 * 128 * 4 * 1.5e9);
  EXPECT_DOUBLE_EQ(peak->bytes, 2 * 1e9 * 512);
}

TEST(CudaCode, Errors) {
  resetStub();
  auto device = makeStubGpu();
  const Gpu &gpu = device->gpu;
  EXPECT_EQ(getError(gpu.load(makeObject(ObjectKind::Cubin, "sm_90", "bad"))),
            "cuLibraryLoadData: CUDA_ERROR_INVALID_IMAGE (what the stub says "
            "of it): update NVIDIA's driver, or compile the model for this "
            "device");
  EXPECT_EQ(getError(gpu.load(makeObject(ObjectKind::Ptx, "sm_80", "bad"))),
            "cuLibraryLoadData: CUDA_ERROR_INVALID_PTX (what the stub says of "
            "it): update NVIDIA's driver, or compile the model for this "
            "device; the driver says: line 1: no stub");
  auto code = gpu.load(makeObject(ObjectKind::Ptx, "sm_80"));
  ASSERT_TRUE(static_cast<bool>(code));
  EXPECT_TRUE(static_cast<bool>((*code)->find("k")));
  EXPECT_EQ(getError((*code)->find("other")),
            "kernel 'other': cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND (what "
            "the stub says of it)");
}

/// A driver that is lazy comes to the code when a kernel is asked for, and
/// writes what its compiler says then.
TEST(CudaCode, ErrorsOfALazyDriver) {
  resetStub().loadsLate = true;
  auto device = makeStubGpu();
  const Gpu &gpu = device->gpu;
  auto machine = gpu.load(makeObject(ObjectKind::Cubin, "sm_90", "bad"));
  auto text = gpu.load(makeObject(ObjectKind::Ptx, "sm_80", "bad"));
  ASSERT_TRUE(machine && text);
  EXPECT_EQ(getError((*machine)->find("k")),
            "kernel 'k': cuKernelGetFunction: CUDA_ERROR_INVALID_IMAGE (what "
            "the stub says of it): update NVIDIA's driver, or compile the "
            "model for this device");
  EXPECT_EQ(getError((*text)->find("k")),
            "kernel 'k': cuKernelGetFunction: CUDA_ERROR_INVALID_PTX (what the "
            "stub says of it): update NVIDIA's driver, or compile the model "
            "for this device; the driver says: line 1: no stub");
}

/// Code is no part of the graph that this thread or another one captures.
TEST(CudaCode, LoadsInACapture) {
  StubDriver &stub = resetStub();
  auto device = makeStubGpu();
  stub.capturing = true;
  auto code = device->gpu.load(makeObject(ObjectKind::Cubin, "sm_90"));
  ASSERT_TRUE(static_cast<bool>(code)) << code.error().message();
  EXPECT_EQ(getError((*code)->find("k")), "no error");
  // Afterwards the thread is held to what a capture allows, as before.
  cuda::Library library = nullptr;
  constexpr int captureUnsupported = 900;
  EXPECT_EQ(openStub().libraryLoadData(&library, "stub k", nullptr, nullptr, 0,
                                       nullptr, nullptr, 0),
            captureUnsupported);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {

/// A launch of a kernel of its own: items and bytes of scratch memory are the
/// first two words of its block.
class CudaLaunch : public testing::Test {
protected:
  void SetUp() override {
    stub.kernels["k"] = [this](const StubBlock &block) {
      blocks.push_back(block);
      for (int64_t i = 0; i < block.scratchBytes; ++i)
        block.scratch[block.block * block.scratchBytes + i] = 1;
    };
    object = makeObject(ObjectKind::Cubin, "sm_90");
    code = std::move(*device->gpu.load(object));
    kernel.code = *code->find("k");
  }

  Result<int64_t> launch(int64_t items, int64_t scratch) {
    const Device &gpu = device->device;
    Result<Session> session = gpu.begin(gpu.state);
    if (!session)
      return session.error();
    int64_t arguments[] = {items, scratch, 77};
    return gpu.launch(gpu.state, session->get(), kernel, arguments);
  }

  StubDriver &stub = resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  Object object;
  std::unique_ptr<DeviceCode> code;
  Kernel kernel{DeviceFunction{nullptr},
                [](const int64_t *block) { return block[0]; },
                [](const int64_t *block) { return block[1]; }, nullptr};
  std::vector<StubBlock> blocks;
};

} // namespace

TEST_F(CudaLaunch, AsManyWarpsAsItems) {
  EXPECT_EQ(*launch(5, 0), 5);
  ASSERT_EQ(blocks.size(), 5u);
  EXPECT_EQ(blocks[0].items, 5);
  EXPECT_EQ(blocks[0].arguments[2], 77);
  EXPECT_EQ(blocks[0].scratchBytes, 0);
  EXPECT_EQ(*launch(0, 0), 0);
  EXPECT_EQ(blocks.size(), 5u); // nothing is launched for no items
}

TEST_F(CudaLaunch, FourTimesTheWarpsThatRunAtATime) {
  stub.multiprocessors = 3; // the device was made with 4
  EXPECT_EQ(*launch(1000, 0), 1000);
  EXPECT_EQ(blocks.size(), 128u); // 8 on each
  blocks.clear();
  stub.residentBlocks = 20;
  EXPECT_EQ(*launch(1000, 0), 1000);
  EXPECT_EQ(blocks.size(), 320u);
  blocks.clear();
  EXPECT_EQ(*launch(300, 0), 300);
  EXPECT_EQ(blocks.size(), 300u); // an item each
  blocks.clear();
  stub.residentBlocks = 0; // the launch says what is wrong
  EXPECT_EQ(*launch(1000, 0), 1000);
  EXPECT_EQ(blocks.size(), 16u);
  stub.failing = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
  stub.failure = 700;
  EXPECT_TRUE(getError(launch(1000, 0))
                  .starts_with("cuOccupancyMaxActiveBlocksPerMultiprocessor: "
                               "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(CudaLaunch, ScratchOfWarps) {
  int64_t before = stub.liveBytes;
  EXPECT_EQ(*launch(1000, 1), 1000);
  ASSERT_EQ(blocks.size(), 128u);
  EXPECT_EQ(blocks[0].scratchBytes, 256);
  EXPECT_EQ(stub.liveBytes, before); // given back after the launch
  blocks.clear();
  EXPECT_EQ(*launch(1000, int64_t(1) << 20), 1000);
  EXPECT_EQ(blocks.size(), 32u); // those that run at a time
  blocks.clear();
  EXPECT_EQ(*launch(1000, (int64_t(256) << 20) + 1), 1000);
  EXPECT_EQ(blocks.size(), 3u); // a GiB holds no four of them
}

TEST_F(CudaLaunch, ABlockForEachItem) {
  kernel.threads = [](const int64_t *) -> int64_t { return 128; };
  kernel.shared = [](const int64_t *block) { return block[2] * 1000; };
  EXPECT_EQ(*launch(1000, 0), 1000);
  ASSERT_EQ(blocks.size(), 1000u);
  EXPECT_EQ(blocks[0].threads, 128u);
  EXPECT_EQ(blocks[0].sharedBytes, 77000u); // which the driver has to allow
  EXPECT_EQ(std::count(stub.log.begin(), stub.log.end(), "cuFuncSetAttribute"),
            1);
  kernel.shared = [](const int64_t *) -> int64_t { return 200001; };
  EXPECT_EQ(getError(launch(8, 0)),
            "the kernel needs 200001 bytes of shared memory for a block, of "
            "which Stub GPU has 200000: compile it for cuda:sm_86, whose "
            "blocks take less, or run it in f32 or on a GPU that has more");
}

TEST_F(CudaLaunch, MoreBlocksThanALaunchHas) {
  kernel.threads = [](const int64_t *) -> int64_t { return 128; };
  EXPECT_EQ(getError(launch(int64_t(1) << 31, 0)),
            "the kernel has 2147483648 work items, of which a GPU runs "
            "2147483647 in one launch: cut the batch");
  EXPECT_TRUE(blocks.empty());
  kernel.threads = nullptr; // warps take items in turns
  EXPECT_EQ(*launch(int64_t(1) << 31, 0), int64_t(1) << 31);
  EXPECT_EQ(blocks.size(), 128u);
}

/// What a warp keeps near is shared memory of a block of one warp, which needs
/// no asking up to what every launch may have.
TEST_F(CudaLaunch, WarpsWithSharedMemory) {
  kernel.shared = [](const int64_t *) -> int64_t { return 48 << 10; };
  EXPECT_EQ(*launch(1000, 100), 1000);
  ASSERT_EQ(blocks.size(), 128u);
  EXPECT_EQ(blocks[0].threads, 32u);
  EXPECT_EQ(blocks[0].sharedBytes, 49152u);
  EXPECT_EQ(blocks[0].scratchBytes, 256);
  EXPECT_EQ(std::count(stub.log.begin(), stub.log.end(), "cuFuncSetAttribute"),
            0);
}

TEST_F(CudaLaunch, OutOfMemory) {
  stub.failing = "cuMemAllocAsync";
  stub.failure = 2;
  EXPECT_EQ(getError(launch(8, 100)),
            "scratch memory of 2048 bytes: a tensor of shape [2048] (2048 "
            "bytes): cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY (what the stub "
            "says of it): free memory of the device, or take a smaller batch");
  stub.failing = "";
  EXPECT_EQ(*launch(8, 100), 8); // the process goes on
}

TEST_F(CudaLaunch, AFaultIsNamed) {
  stub.failing = "cuStreamSynchronize";
  stub.failure = 700;
  EXPECT_EQ(*launch(8, 0), 8); // nobody knows yet
  setenv("SEXTANT_CHECK", "now", 1);
  std::string message = getError(launch(8, 0));
  unsetenv("SEXTANT_CHECK");
  EXPECT_EQ(message,
            "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (what the stub "
            "says of it): a kernel has faulted, this one or one before it, and "
            "CUDA does no more work in this process; start it again with "
            "SEXTANT_CHECK=now to see which");
}

//===----------------------------------------------------------------------===//
// Checks of data
//===----------------------------------------------------------------------===//

namespace {

class CudaChecks : public testing::Test {
protected:
  /// Begins a run, in which 9 has to be at most `bound`.
  Status check(int64_t bound) {
    const Device &gpu = device->device;
    Result<Session> session = gpu.begin(gpu.state);
    if (!session)
      return session.error();
    return gpu.defer(gpu.state, session->get(),
                     {&value, Predicate::AtMost, bound, "'f': too far"});
  }

  StubDriver &stub = resetStub();
  std::unique_ptr<CudaDevice> device = makeStubGpu();
  int64_t value = 9;
};

} // namespace

TEST_F(CudaChecks, ALaterCallFails) {
  EXPECT_EQ(getError(check(8)), "no error");
  EXPECT_EQ(getError(check(10)), "1 call ago: 'f': too far (9 and 8)");
  EXPECT_EQ(getError(check(10)), "no error"); // it is said once
  EXPECT_EQ(stub.waits, 0);
}

TEST_F(CudaChecks, NobodyWaitsForThem) {
  stub.holdsCopies = true;
  EXPECT_EQ(getError(check(8)), "no error");
  EXPECT_EQ(getError(check(8)), "no error"); // nothing has arrived
  EXPECT_EQ(stub.waits, 0);
  // Whoever waits for the device anyway is told.
  const Device &gpu = device->device;
  int64_t copy = 0;
  EXPECT_EQ(getError(gpu.copyOut(gpu.state, &copy, &value, sizeof(copy))),
            "1 call ago: 'f': too far (9 and 8)");
  EXPECT_EQ(copy, 9);
}

TEST_F(CudaChecks, NowIfAsked) {
  setenv("SEXTANT_CHECK", "now", 1);
  stub.holdsCopies = true;
  std::string message = getError(check(8));
  unsetenv("SEXTANT_CHECK");
  EXPECT_EQ(message, "'f': too far (9 and 8)");
}

/// Memory for what arrives is made whoever captures a graph meanwhile, as much
/// as a graph has checks.
TEST_F(CudaChecks, RoomInACapture) {
  stub.capturing = true;
  for (int call = 0; call < 2500; ++call)
    ASSERT_EQ(getError(check(9)), "no error");
  EXPECT_EQ(stub.captured.size(), 2500u);
}

/// What checks nothing needs no memory for it.
TEST_F(CudaChecks, NoRoomForNone) {
  const Device &gpu = device->device;
  EXPECT_EQ(getError(gpu.begin(gpu.state)), "no error");
  EXPECT_EQ(std::count(stub.log.begin(), stub.log.end(), "cuMemHostAlloc"), 0);
}

// A replay of a graph copies to where the capture has copied to.
TEST_F(CudaChecks, CapturedCalls) {
  stub.capturing = true;
  EXPECT_EQ(getError(check(9)), "no error");
  stub.capturing = false;
  for (int64_t given : {9, 10, 9, 11}) {
    value = given;
    stub.captured.at(0)();
    EXPECT_EQ(getError(check(12)),
              given == 9 ? "no error"
                         : "a replay of a captured call: 'f': too far (" +
                               std::to_string(given) + " and 9)");
  }
  EXPECT_EQ(stub.waits, 0);
}
