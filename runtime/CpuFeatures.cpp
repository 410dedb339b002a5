//===- CpuFeatures.cpp - What this machine can execute --------------------===//
//
// The features that kernels may need stand in a table of the compiler's
// builtins, which ask the processor and the operating system.
//
//===----------------------------------------------------------------------===//

#include "runtime/CpuFeatures.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace sextant::runtime;

/// Whether the processor has tiles of AMX with products of bf16, and the
/// operating system keeps them for this process, which has to ask: a thread
/// that uses them then has 8 KiB more to be saved.
static bool hasTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned isTile = 1u << 24, isBf16 = 1u << 22;
  constexpr long askForState = 0x1023, stateOfTiles = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & isTile) &&
         (d & isBf16) &&
         ::syscall(SYS_arch_prctl, askForState, stateOfTiles) == 0;
#else
  return false;
#endif
}

/// Whether the host has the feature. A name that this table lacks counts as
/// missing: better a refusal than an illegal instruction.
bool sextant::runtime::hasCpuFeature(std::string_view name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
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
  static const bool tiles = hasTiles();
  if (name == "amx-tile" || name == "amx-bf16")
    return tiles;
#endif
  return false;
}

Status
sextant::runtime::checkCpuFeatures(std::span<const std::string> features) {
  std::string missing;
  for (const std::string &feature : features)
    if (!hasCpuFeature(feature))
      missing += (missing.empty() ? "" : ", ") + feature;
  if (missing.empty())
    return {};
  return makeError("the artifact's kernels need ", missing,
                   ", which this machine does not have: compile for a target "
                   "that it has");
}
