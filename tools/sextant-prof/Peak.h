//===- Peak.h - What this machine can do at most ----------------*- C++ -*-===//

#ifndef SEXTANT_TOOLS_SEXTANT_PROF_PEAK_H
#define SEXTANT_TOOLS_SEXTANT_PROF_PEAK_H

#include <cstdint>

namespace sextant::tools {

/// Measured limits of all threads together.
struct Peak {
  double flops; ///< fused multiply-adds of f32 in registers, two each
  double bytes; ///< per second, read from memory
};

/// Measures for a fraction of a second. `vectorBits` is 256 or 512.
Peak measurePeak(int64_t threads, int vectorBits);

/// The widest vectors of this machine, in bits.
int getVectorBits();

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SEXTANT_PROF_PEAK_H
