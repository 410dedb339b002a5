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
                                                    const Device &device) {
  auto result = std::make_unique<StubProgram>();
  Artifact artifact = std::move(*readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}));
  result->code.push_back(
      std::move(*SharedObject::load(artifact.objects[0].code)));
  StubDriver &stub = resetStub();
  result->image = "stub";
  for (KernelName &kernel : artifact.kernels) {
    result->image += " " + kernel.name;
    kernel.deviceObjects = {1};
    auto run =
        reinterpret_cast<HostFunction>(*result->code[0].find(kernel.name));
    stub.kernels[kernel.name] = [run](const StubBlock &block) {
      run(block.arguments, block.items * block.block / block.blocks,
          block.items * (block.block + 1) / block.blocks,
          block.scratch + block.block * block.scratchBytes);
    };
  }
  artifact.objects.push_back(
      {ObjectKind::Ptx,
       "sm_80",
       {},
       {reinterpret_cast<const uint8_t *>(result->image.data()),
        result->image.size()}});
  auto program = Program::load(std::move(artifact), device);
  EXPECT_TRUE(static_cast<bool>(program)) << program.error().message();
  result->program = std::move(*program);
  return result;
}
