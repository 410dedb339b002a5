//===- NarrowFloats.cpp - bf16 and f16 as numbers -------------------------===//

#include "runtime/NarrowFloats.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace sextant;

uint16_t runtime::encodeBF16(double value) {
  auto number = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double runtime::decodeBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// Mantissas have 11 bits, the first of which is not stored; those of numbers
/// below 2^-14 have fewer, at the same distance from each other.
uint16_t runtime::encodeF16(double value) {
  constexpr uint32_t infinity = 0x7c00;
  uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | 0x7e00);
  if (std::fabs(value) >= 65536.0)
    return static_cast<uint16_t>(sign | infinity);
  int exponent = -13;
  if (value != 0.0) {
    std::frexp(value, &exponent);
    exponent = std::max(exponent, -13);
  }
  auto steps = static_cast<uint32_t>(
      std::nearbyint(std::ldexp(std::fabs(value), 11 - exponent)));
  // A mantissa of 2048 steps carries into the exponent.
  return static_cast<uint16_t>(
      sign | ((static_cast<uint32_t>(exponent + 13) << 10) + steps));
}

double runtime::decodeF16(uint16_t bits) {
  constexpr uint64_t toBias = 1023 - 15, ofInfinities = 2047;
  uint64_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = static_cast<double>(mantissa) * 0x1p-24;
  if (exponent != 0) {
    uint64_t wide = exponent == 31 ? ofInfinities : exponent + toBias;
    value = std::bit_cast<double>(wide << 52 | mantissa << 42);
  }
  return bits >> 15 ? -value : value;
}
