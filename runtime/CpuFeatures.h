//===- CpuFeatures.h - What this machine can execute ------------*- C++ -*-===//
//
// An object of an artifact names the features of the processor that its code
// needs. A processor that lacks one would end the process by a signal, so
// loading checks them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPUFEATURES_H
#define SEXTANT_RUNTIME_CPUFEATURES_H

#include "runtime/ArtifactFormat.h"
#include "runtime/Result.h"

namespace sextant::runtime {

/// The architecture of this machine, as artifacts call it.
#if defined(__x86_64__)
inline constexpr std::string_view hostArchitecture = x86Architecture;
#else
inline constexpr std::string_view hostArchitecture = "another";
#endif

/// Whether this process can use a feature (LLVM's names) of the processor. A
/// name that is not known counts as missing.
bool hasCpuFeature(std::string_view name);

/// An error that names every feature (LLVM's names) that the host lacks.
Status checkCpuFeatures(std::span<const std::string> features);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPUFEATURES_H
