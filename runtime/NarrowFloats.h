//===- NarrowFloats.h - bf16 and f16 as numbers -----------------*- C++ -*-===//
//
// Elements of 16 bits are decoded and rounded by their definitions, which needs
// no support from the compiler or the processor.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_NARROWFLOATS_H
#define SEXTANT_RUNTIME_NARROWFLOATS_H

#include <cstdint>

namespace sextant::runtime {

/// To the nearest, ties to even; NaN stays one, what is too large becomes an
/// infinity.
uint16_t encodeBF16(double value);
uint16_t encodeF16(double value);

double decodeBF16(uint16_t bits);
double decodeF16(uint16_t bits);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_NARROWFLOATS_H
