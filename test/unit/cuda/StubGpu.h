//===- StubGpu.h - A device on the stub driver ------------------*- C++ -*-===//

#ifndef SEXTANT_TEST_UNIT_CUDA_STUBGPU_H
#define SEXTANT_TEST_UNIT_CUDA_STUBGPU_H

#include "StubDriver.h"
#include "runtime/Program.h"
#include "runtime/cuda/CudaDevice.h"

namespace sextant::test {

/// The stub driver, with settings and log as at first.
StubDriver &resetStub();

/// The functions of the stub driver.
const runtime::cuda::Driver &openStub();

/// A GPU of the stub with memory and a stream of its own.
std::unique_ptr<runtime::cuda::CudaDevice> makeStubGpu();

/// The program of an artifact that was compiled for the host, whose kernels
/// "sm_80" has too: the stub runs the functions of the host, block by block.
/// `image` must outlive the program. Before its PTX stands `cubin`, if given.
/// `isLazy`: the driver looks at code when it is asked for a kernel.
struct StubProgram {
  std::vector<runtime::SharedObject> code;
  std::string image;
  std::unique_ptr<runtime::Program> program;
};
std::unique_ptr<StubProgram> loadOnStub(const std::string &bytes,
                                        const runtime::Device &device,
                                        std::string_view cubin = {},
                                        bool isLazy = false);

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_CUDA_STUBGPU_H
