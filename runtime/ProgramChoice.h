//===- ProgramChoice.h - Which program a device runs ------------*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_PROGRAMCHOICE_H
#define SEXTANT_RUNTIME_PROGRAMCHOICE_H

#include "runtime/Device.h"
#include "runtime/FatArtifact.h"

namespace sextant::runtime {

/// "machine code for 'sm_80'".
std::string describe(const Object &object);

/// Whether a program's kernels are functions of the host.
bool isForHost(const Artifact &artifact);

/// The number of the only one of some programs, or of several of the first that
/// the device runs, where loading still checks it. The error says of each why
/// the device does not.
Result<size_t> chooseProgram(std::span<const Artifact> artifacts,
                             const Device &device);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_PROGRAMCHOICE_H
