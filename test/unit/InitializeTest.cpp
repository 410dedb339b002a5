//===- InitializeTest.cpp - Initial values have the bits that are stated --===//
//
// Initial values must be the same bits on every machine, so known answers and a
// few frozen bits are compared.
//
//===----------------------------------------------------------------------===//

#include "runtime/Initialize.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace sextant::runtime;
using sextant::artifact::Init;

// The known answers of Random123 (kat_vectors, philox4x32 10).
TEST(Initialize, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(computePhilox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(computePhilox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(computePhilox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                          {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The quantile is inverted by the error function.
TEST(Initialize, NormalQuantile) {
  for (double u : {1e-9, 1e-4, 0.01, 0.05, 0.2, 0.5, 0.7, 0.93, 0.999}) {
    double x = computeNormalQuantile(u);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)), u, 1e-14 + 1e-13 * u);
  }
  EXPECT_EQ(computeNormalQuantile(0.5), 0.0);
}

static Tensor fill(const Distribution &distribution, const char *name,
                   uint64_t seed, int64_t count = 10000) {
  Result<Tensor> tensor =
      allocateOnHost(DType::F32, std::vector<int64_t>{count});
  EXPECT_TRUE(static_cast<bool>(fillTensor(*tensor, distribution, name, seed)));
  return std::move(*tensor);
}

static std::span<const float> get(const Tensor &tensor) {
  return {static_cast<const float *>(tensor.data),
          static_cast<size_t>(tensor.elements())};
}

static constexpr double infinity = std::numeric_limits<double>::infinity();

// Frozen bits: a change of this test is a change of everybody's models.
TEST(Initialize, BitsAreFrozen) {
  Tensor tensor =
      fill({Init::Normal, 0.0, 0.02, -infinity, infinity}, "h.0.weight", 7, 5);
  uint32_t sum = 0;
  for (float value : get(tensor))
    sum = sum * 31 + std::bit_cast<uint32_t>(value);
  EXPECT_EQ(sum, 3219752395u);
}

TEST(Initialize, DependsOnSeedAndNameOnly) {
  Distribution normal{Init::Normal, 0.0, 1.0, -infinity, infinity};
  Tensor whole = fill(normal, "a", 1), part = fill(normal, "a", 1, 7);
  EXPECT_TRUE(
      std::equal(get(part).begin(), get(part).end(), get(whole).begin()));
  EXPECT_NE(get(fill(normal, "b", 1))[0], get(whole)[0]);
  EXPECT_NE(get(fill(normal, "a", 2))[0], get(whole)[0]);
}

// Means and deviations of 10000 values: 5 standard errors of slack.
TEST(Initialize, Moments) {
  auto moments = [](const Tensor &tensor) {
    double sum = 0.0, squares = 0.0;
    for (double value : get(tensor)) {
      sum += value;
      squares += value * value;
    }
    double count = static_cast<double>(tensor.elements());
    return std::pair(sum / count, std::sqrt(squares / count));
  };
  auto [mean, deviation] =
      moments(fill({Init::Normal, 0.0, 2.0, -infinity, infinity}, "n", 3));
  EXPECT_NEAR(mean, 0.0, 0.1);
  EXPECT_NEAR(deviation, 2.0, 0.1);
  auto [middle, unused] =
      moments(fill({Init::Uniform, 1.0, 3.0, -infinity, infinity}, "u", 3));
  EXPECT_NEAR(middle, 2.0, 0.03);
}

TEST(Initialize, KeepsBounds) {
  Tensor tensor = fill({Init::Uniform, 0.0, 2.0, 0.5, 1.5}, "u", 3);
  for (float value : get(tensor)) {
    EXPECT_GE(value, 0.5f);
    EXPECT_LE(value, 1.5f);
  }
}

TEST(Initialize, RefusesIntegers) {
  Result<Tensor> tensor = allocateOnHost(DType::I32, std::vector<int64_t>{2});
  Status status = fillTensor(
      *tensor, {Init::Constant, 0.0, 0.0, -infinity, infinity}, "ids", 0);
  ASSERT_FALSE(static_cast<bool>(status));
  EXPECT_EQ(status.error().message(),
            "'ids' is i32: initial values are f32, f64, bf16 or f16");
}
