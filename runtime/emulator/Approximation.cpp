//===- Approximation.cpp - Approximate instructions of a GPU --------------===//

#include "runtime/emulator/Approximation.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

using namespace sextant::runtime::emulator;

/// A number in [-1, 1] that follows from `bits` and the seed (splitmix64).
static double drawSigned(uint32_t bits, uint64_t seed) {
  uint64_t z = seed * 0x9e3779b97f4a7c15 + bits + 0x632be59bd9b4e019;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1.0;
}

static constexpr float leastNormal = std::numeric_limits<float>::min();

/// A number that is off by a share of itself, less what the conversion takes.
static float disturb(double exact, double error, float x, uint64_t seed) {
  double share =
      drawSigned(std::bit_cast<uint32_t>(x), seed) * (error - 0x1p-24);
  return static_cast<float>(exact * (1 + share));
}

float sextant::runtime::emulator::approximateExp2(float x, uint64_t seed) {
  if (std::fabs(x) < leastNormal)
    return 1.0F;
  if (!std::isfinite(x))
    return std::exp2(x);
  float result = disturb(std::exp2(static_cast<double>(x)), exp2Error, x, seed);
  return result < leastNormal ? 0.0F : result;
}

float sextant::runtime::emulator::approximateTanh(float x, uint64_t seed) {
  if (!std::isfinite(x))
    return std::tanh(x);
  float result = disturb(std::tanh(static_cast<double>(x)), tanhError, x, seed);
  return std::clamp(result, -1.0F, 1.0F);
}

float sextant::runtime::emulator::approximateReciprocal(float x,
                                                        uint64_t seed) {
  if (std::fabs(x) < leastNormal)
    return std::copysign(std::numeric_limits<float>::infinity(), x);
  if (!std::isfinite(x))
    return 1 / x;
  float result = disturb(1 / static_cast<double>(x), reciprocalError, x, seed);
  return std::fabs(result) < leastNormal ? std::copysign(0.0F, x) : result;
}

/// Denormals as zeros of their sign.
static float flush(float x) {
  return std::fabs(x) < leastNormal ? std::copysign(0.0F, x) : x;
}

float sextant::runtime::emulator::approximateLog2(float x, uint64_t seed) {
  float logarithm = std::log2(flush(x));
  if (!std::isfinite(logarithm))
    return logarithm;
  double exact = std::log2(static_cast<double>(x));
  if (x < 0.5F || x > 2.0F)
    return disturb(exact, log2Error, x, seed);
  // Less what the conversion of a number up to 1 takes.
  double error = drawSigned(std::bit_cast<uint32_t>(x), seed) *
                 (log2NearOneError - 0x1p-25);
  return static_cast<float>(exact + error);
}

float sextant::runtime::emulator::approximateSine(float x, bool isCosine,
                                                  uint64_t seed) {
  if (!std::isfinite(x))
    return std::numeric_limits<float>::quiet_NaN();
  // The instruction takes turns, which a product with 1 / (2 pi) gives.
  float turns = flush(x) * 0x1.45f306p-3F;
  double angle = static_cast<double>(turns) * 2 * std::numbers::pi;
  double exact = isCosine ? std::cos(angle) : std::sin(angle);
  double error = drawSigned(std::bit_cast<uint32_t>(x), seed) * waveError;
  return static_cast<float>(std::clamp(exact + error, -1.0, 1.0));
}

float sextant::runtime::emulator::approximateSquareRoot(float x,
                                                        uint64_t seed) {
  float root = std::sqrt(flush(x));
  if (!std::isfinite(root) || root == 0)
    return root;
  return disturb(std::sqrt(static_cast<double>(x)), squareRootError, x, seed);
}

int32_t sextant::runtime::emulator::toWord(float high, float low,
                                           uint16_t (*encode)(double value)) {
  constexpr uint32_t theNaN = 0x7fff;
  auto toHalf = [&](float value) -> uint32_t {
    return std::isnan(value) ? theNaN : encode(value);
  };
  return static_cast<int32_t>(toHalf(high) << 16 | toHalf(low));
}
