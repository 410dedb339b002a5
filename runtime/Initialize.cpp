//===- Initialize.cpp - Initial values of parameters ----------------------===//
//
// This file is built with -ffp-contract=off: a fused multiply-add would round
// differently.
//
//===----------------------------------------------------------------------===//

#include "runtime/Initialize.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/NarrowFloats.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace sextant;
using namespace sextant::runtime;

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

std::array<uint32_t, 4> runtime::computePhilox(std::array<uint32_t, 4> counter,
                                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0];
    uint64_t second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The natural logarithm from basic operations: x = m 2^e with m near 1, log m
/// = 2 artanh((m - 1) / (m + 1)) by its series (|argument| < 0.172).
static double computeLog(double x) {
  int exponent;
  double m = std::frexp(x, &exponent); // exact
  if (m < 0.70710678118654752) {
    m *= 2.0;
    --exponent;
  }
  double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
  for (int n = 23; n >= 1; n -= 2)
    sum = sum * square + 1.0 / n;
  return 2.0 * s * sum + exponent * 0.69314718055994530942;
}

static double evaluate(std::span<const double> coefficients, double x) {
  double value = 0.0;
  for (double coefficient : coefficients)
    value = value * x + coefficient;
  return value;
}

// AS 241, routine PPND16: rational functions of the middle, the tails and the
// far tails; highest power first.
double runtime::computeNormalQuantile(double u) {
  static constexpr double middleTop[] = {
      2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
      45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
      133.14166789178437745, 3.387132872796366608};
  static constexpr double middleBottom[] = {
      5226.495278852545925,  28729.085735721942674,
      39307.89580009271061,  21213.794301586595867,
      5394.1960214247511077, 687.1870074920579083,
      42.313330701600911252, 1.0};
  static constexpr double tailTop[] = {
      7.7454501427834140764e-4, 0.0227238449892691845833,
      0.24178072517745061177,   1.27045825245236838258,
      3.64784832476320460504,   5.7694972214606914055,
      4.6303378461565452959,    1.42343711074968357734};
  static constexpr double tailBottom[] = {
      1.05075007164441684324e-9, 5.475938084995344946e-4,
      0.0151986665636164571966,  0.14810397642748007459,
      0.68976733498510000455,    1.6763848301838038494,
      2.05319162663775882187,    1.0};
  static constexpr double farTop[] = {
      2.01033439929228813265e-7, 2.71155556874348757815e-5,
      0.0012426609473880784386,  0.026532189526576123093,
      0.29656057182850489123,    1.7848265399172913358,
      5.4637849111641143699,     6.6579046435011037772};
  static constexpr double farBottom[] = {
      2.04426310338993978564e-15, 1.4215117583164458887e-7,
      1.8463183175100546818e-5,   7.868691311456132591e-4,
      0.0148753612908506148525,   0.13692988092273580531,
      0.59983220655588793769,     1.0};
  double q = u - 0.5;
  if (std::fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q * evaluate(middleTop, r) / evaluate(middleBottom, r);
  }
  double r = std::sqrt(-computeLog(q < 0.0 ? u : 1.0 - u));
  double value =
      r <= 5.0 ? evaluate(tailTop, r - 1.6) / evaluate(tailBottom, r - 1.6)
               : evaluate(farTop, r - 5.0) / evaluate(farBottom, r - 5.0);
  return q < 0.0 ? -value : value;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static void store(const Tensor &tensor, int64_t index, double value) {
  switch (tensor.dtype) {
  case DType::F64:
    static_cast<double *>(tensor.data)[index] = value;
    return;
  case DType::BF16:
    static_cast<uint16_t *>(tensor.data)[index] = encodeBF16(value);
    return;
  case DType::F16:
    static_cast<uint16_t *>(tensor.data)[index] = encodeF16(value);
    return;
  default:
    static_cast<float *>(tensor.data)[index] = static_cast<float>(value);
    return;
  }
}

Status runtime::fillTensor(const Tensor &tensor,
                           const Distribution &distribution,
                           std::string_view name, uint64_t seed) {
  if (tensor.dtype != DType::F32 && tensor.dtype != DType::F64 &&
      tensor.dtype != DType::BF16 && tensor.dtype != DType::F16)
    return makeError("'", std::string(name), "' is ", getName(tensor.dtype),
                     ": initial values are f32, f64, bf16 or f16");
  uint64_t hash = computeChecksum(
      {reinterpret_cast<const uint8_t *>(name.data()), name.size()});
  auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  std::array<uint32_t, 4> words = {};
  for (int64_t i = 0, count = tensor.elements(); i < count; ++i) {
    double value = distribution.first;
    if (distribution.kind != artifact::Init::Constant) {
      if (i % 4 == 0) {
        uint64_t block = static_cast<uint64_t>(i) / 4;
        words = computePhilox({low(block), high(block), low(hash), high(hash)},
                              {low(seed), high(seed)});
      }
      double u = (words[static_cast<size_t>(i % 4)] + 0.5) * 0x1p-32;
      value = distribution.kind == artifact::Init::Normal
                  ? distribution.first +
                        distribution.second * computeNormalQuantile(u)
                  : distribution.first +
                        (distribution.second - distribution.first) * u;
    }
    store(tensor, i,
          std::min(std::max(value, distribution.floor), distribution.ceiling));
  }
  return {};
}

Status runtime::initializeParameter(const Artifact &artifact,
                                    const Parameter &parameter, uint64_t seed,
                                    const Tensor &tensor) {
  if (parameter.init == artifact::Init::Given) {
    if (!parameter.data)
      return makeError("the parameter '", parameter.name,
                       "' has no initial value: the caller gives it");
    std::span<const uint8_t> bytes = artifact.data[*parameter.data].bytes;
    if (!bytes.empty())
      std::memcpy(tensor.data, bytes.data(), bytes.size());
    return {};
  }
  double infinity = std::numeric_limits<double>::infinity();
  Distribution distribution{
      parameter.init, parameter.initNumbers[0],
      parameter.initNumbers.size() > 1 ? parameter.initNumbers[1] : 0.0,
      parameter.floor.value_or(-infinity),
      parameter.ceiling.value_or(infinity)};
  return fillTensor(tensor, distribution, parameter.name, seed);
}
