//===- CpuFeatures.cpp - What this machine can execute --------------------===//
//
// The features that kernels may need stand in a table of the compiler's
// builtins, which ask the processor and the operating system.
//
//===----------------------------------------------------------------------===//

#include "runtime/CpuFeatures.h"

using namespace sextant::runtime;

/// Whether the host has the feature. A name that this table lacks counts as
/// missing: better a refusal than an illegal instruction.
static bool hasFeature(const std::string &name) {
#if defined(__x86_64__)
#define SEXTANT_FEATURE(text)                                                  \
  if (name == (text))                                                          \
    return __builtin_cpu_supports(text);
  SEXTANT_FEATURE("sse3")
  SEXTANT_FEATURE("ssse3")
  SEXTANT_FEATURE("sse4.1")
  SEXTANT_FEATURE("sse4.2")
  SEXTANT_FEATURE("popcnt")
  SEXTANT_FEATURE("avx")
  SEXTANT_FEATURE("avx2")
  SEXTANT_FEATURE("bmi")
  SEXTANT_FEATURE("bmi2")
  SEXTANT_FEATURE("f16c")
  SEXTANT_FEATURE("fma")
  SEXTANT_FEATURE("lzcnt")
  SEXTANT_FEATURE("movbe")
  SEXTANT_FEATURE("avx512f")
  SEXTANT_FEATURE("avx512bw")
  SEXTANT_FEATURE("avx512cd")
  SEXTANT_FEATURE("avx512dq")
  SEXTANT_FEATURE("avx512vl")
  SEXTANT_FEATURE("avx512vbmi")
  SEXTANT_FEATURE("avx512vbmi2")
  SEXTANT_FEATURE("avx512vnni")
  SEXTANT_FEATURE("avx512bf16")
  SEXTANT_FEATURE("avx512fp16")
#undef SEXTANT_FEATURE
#endif
  return false;
}

Status
sextant::runtime::checkCpuFeatures(std::span<const std::string> features) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  std::string missing;
  for (const std::string &feature : features)
    if (!hasFeature(feature))
      missing += (missing.empty() ? "" : ", ") + feature;
  if (missing.empty())
    return {};
  return makeError("the artifact's kernels need ", missing,
                   ", which this machine does not have: compile for a target "
                   "that it has");
}
