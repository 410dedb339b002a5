//===- Initialize.h - Initial values of parameters --------------*- C++ -*-===//
//
// Values depend on the seed, the parameter's name and the element's index, and
// on nothing else: not on the order of parameters, on threads or on the
// machine. Element i of a parameter is word i mod 4 of the block i / 4 of
// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
// 2, 3"), with the seed as key and the counter (i / 4, hash of the name), each
// 64 bits, low word first; the hash is FNV-1a. A word w stands for u = (w +
// 0.5) / 2^32. A uniform value is low + (high - low) u; a normal one is mean +
// deviation q(u) with Wichura's approximation of the normal quantile (AS 241,
// 1988). Everything is computed in f64 with basic operations that IEEE 754
// rounds exactly and without contraction, then rounded once: same bits
// everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_INITIALIZE_H
#define SEXTANT_RUNTIME_INITIALIZE_H

#include "runtime/ArtifactReader.h"
#include <array>

namespace sextant::runtime {

/// How a parameter's elements are distributed.
struct Distribution {
  artifact::Init kind; ///< not Given
  double first;        ///< constant; mean; low
  double second = 0.0; ///< deviation; high
  double floor, ceiling;
};

/// A block of Philox4x32-10.
std::array<uint32_t, 4> computePhilox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key);

/// The standard normal quantile of 0 < u < 1.
double computeNormalQuantile(double u);

/// Fills a contiguous tensor of floats. An error for an integer dtype.
Status fillTensor(const Tensor &tensor, const Distribution &distribution,
                  std::string_view name, uint64_t seed);

/// Fills a contiguous tensor of the parameter's type: its distribution, or the
/// values of the artifact; then its floor and ceiling.
Status initializeParameter(const Artifact &artifact, const Parameter &parameter,
                           uint64_t seed, const Tensor &tensor);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_INITIALIZE_H
