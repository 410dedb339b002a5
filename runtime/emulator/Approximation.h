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

/// The largest relative errors of ex2.approx, tanh.approx, rcp.approx,
/// lg2.approx outside of [1/2, 2] and sqrt.approx.
inline constexpr double exp2Error = 0x1p-22, tanhError = 0x1p-11,
                        reciprocalError = 0x1p-23, log2Error = 0x1p-22,
                        squareRootError = 0x1p-23;
/// The largest absolute errors of lg2.approx in [1/2, 2], and of sin.approx and
/// cos.approx in [-pi, pi]. Beyond that a multiple of 2 pi is off by a
/// rounding.
inline constexpr double log2NearOneError = 0x1p-22, waveError = 0x1p-20;

/// ex2.approx.ftz.f32: exact at 0 and at infinities; denormals are 0.
float approximateExp2(float x, uint64_t seed);

/// tanh.approx.f32: between -1 and 1; exact at 0 and at infinities.
float approximateTanh(float x, uint64_t seed);

/// rcp.approx.ftz.f32: denormals are 0, of which the sign stays, and so are
/// results; exact at 0 and at infinities.
float approximateReciprocal(float x, uint64_t seed);

/// lg2.approx.ftz.f32: denormals are 0, of which it is -inf; NaN below 0.
float approximateLog2(float x, uint64_t seed);

/// sin.approx.ftz.f32 and cos.approx.ftz.f32, of x or of x + pi / 2: between -1
/// and 1; NaN at infinities.
float approximateSine(float x, bool isCosine, uint64_t seed);

/// sqrt.approx.ftz.f32: denormals are 0; NaN below 0.
float approximateSquareRoot(float x, uint64_t seed);

/// cvt.rn.bf16x2.f32 and cvt.rn.f16x2.f32: two numbers as `encode` rounds them,
/// `low` in the low half. A NaN has the bits that a GPU gives every one.
int32_t toWord(float high, float low, uint16_t (*encode)(double value));

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_APPROXIMATION_H
