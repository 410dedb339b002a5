//===- DevicePrograms.h - Programs that tests run on devices ----*- C++ -*-===//
//
// Tests of devices compile a model, run it on two devices and compare what
// comes out.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H
#define SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H

#include "runtime/Executor.h"

namespace sextant::test {

/// The bytes of an artifact of a model, for the last of the targets that this
/// machine runs. Failures of this and what follows are those of the test.
std::string compileForHost(const std::string &text);

std::unique_ptr<runtime::Program> load(const std::string &bytes,
                                       const runtime::Device &device);

/// What a function gives on the device of its program. Inputs and results are
/// in memory of the host.
std::vector<runtime::Tensor> runOn(const runtime::Program &program,
                                   size_t function,
                                   std::span<const runtime::Tensor> inputs,
                                   runtime::Trace &trace);

/// Expects two contiguous tensors to have one shape and the same bits.
void expectSameBits(const runtime::Tensor &ours, const runtime::Tensor &theirs,
                    const std::string &name);

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H
