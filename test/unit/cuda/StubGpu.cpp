//===- StubGpu.cpp - A device on the stub driver --------------------------===//

#include "StubGpu.h"
#include "gtest/gtest.h"
#include <dlfcn.h>

using namespace sextant;
using namespace sextant::runtime;
using test::StubBlock, test::StubDriver;

StubDriver &test::resetStub() {
  void *library = dlopen(SEXTANT_STUB_DRIVER, RTLD_NOW | RTLD_LOCAL);
  auto get = reinterpret_cast<GetStubDriver>(dlsym(library, stubSymbol));
  StubDriver &stub = *get();
  int64_t live = stub.liveBytes;
  stub = StubDriver();
  stub.liveBytes = live;
  return stub;
}

const cuda::Driver &test::openStub() {
  static const auto driver = cuda::Driver::open(SEXTANT_STUB_DRIVER);
  EXPECT_TRUE(static_cast<bool>(driver));
  return **driver;
}

std::unique_ptr<cuda::CudaDevice> test::makeStubGpu() {
  auto device = cuda::makeOwnDevice(openStub(), 0);
  EXPECT_TRUE(static_cast<bool>(device)) << device.error().message();
  return std::move(*device);
}

std::unique_ptr<test::StubProgram> test::loadOnStub(const std::string &bytes,
                                                    const Device &device,
                                                    std::string_view cubin,
                                                    bool isLazy) {
  auto result = std::make_unique<StubProgram>();
  Artifact artifact = std::move(*readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}));
  result->code.push_back(
      std::move(*SharedObject::load(artifact.objects[0].code)));
  StubDriver &stub = resetStub();
  stub.loadsLate = isLazy;
  result->image = "stub";
  auto add = [&](ObjectKind kind, const char *architecture,
                 std::string_view code) {
    artifact.objects.push_back(
        {kind,
         architecture,
         {},
         {reinterpret_cast<const uint8_t *>(code.data()), code.size()}});
    for (KernelName &kernel : artifact.kernels)
      kernel.deviceObjects.push_back(artifact.objects.size() - 1);
  };
  for (KernelName &kernel : artifact.kernels) {
    result->image += " " + kernel.name;
    auto run =
        reinterpret_cast<HostFunction>(*result->code[0].find(kernel.name));
    stub.kernels[kernel.name] = [run](const StubBlock &block) {
      run(block.arguments, block.items * block.block / block.blocks,
          block.items * (block.block + 1) / block.blocks,
          block.scratch + block.block * block.scratchBytes);
    };
  }
  if (!cubin.empty())
    add(ObjectKind::Cubin, "sm_90", cubin);
  add(ObjectKind::Ptx, "sm_80", result->image);
  auto program = Program::load(std::move(artifact), device);
  EXPECT_TRUE(static_cast<bool>(program)) << program.error().message();
  result->program = std::move(*program);
  return result;
}
