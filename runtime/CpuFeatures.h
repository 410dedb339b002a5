//===- CpuFeatures.h - What this machine can execute ------------*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_CPUFEATURES_H
#define SEXTANT_RUNTIME_CPUFEATURES_H

#include "runtime/Result.h"
#include <span>

namespace sextant::runtime {

/// An error that names every feature (LLVM's names) that the host lacks.
Status checkCpuFeatures(std::span<const std::string> features);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPUFEATURES_H
