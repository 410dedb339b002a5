//===- CpuFeatures.h - What this machine can execute ------------*- C++ -*-===//

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

/// An error that names every feature (LLVM's names) that the host lacks.
Status checkCpuFeatures(std::span<const std::string> features);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPUFEATURES_H
