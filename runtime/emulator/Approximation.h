//===- Approximation.h - Approximate instructions of a GPU ------*- C++ -*-===//
//
// A GPU documents how far its approximate instructions may be off, not by how
// much they are. So results here are exact up to an error within that bound,
// which a seed draws from the bits of the argument: code that is right for some
// seeds only relies on what no GPU promises.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_APPROXIMATION_H
#define SEXTANT_RUNTIME_EMULATOR_APPROXIMATION_H

#include <cstdint>

namespace sextant::runtime::emulator {

/// The largest relative error of ex2.approx.
inline constexpr double exp2Error = 0x1p-22;

/// ex2.approx.ftz.f32: exact at 0 and at infinities; denormals are 0.
float approximateExp2(float x, uint64_t seed);

/// cvt.rn.bf16x2.f32: to the nearest, ties to even, `low` in the low half.
int32_t toBf16(float high, float low);

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_APPROXIMATION_H
