//===- NarrowFloatsTest.cpp - bf16 and f16 as numbers ---------------------===//

#include "runtime/NarrowFloats.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace sextant::runtime;

namespace {
/// A format of 16 bits: from the least to the largest finite magnitude its bit
/// patterns count up.
struct Format {
  uint16_t (*encode)(double);
  double (*decode)(uint16_t);
  uint16_t infinity;
};

class NarrowFloats : public testing::TestWithParam<Format> {};
} // namespace

TEST_P(NarrowFloats, EveryNumberIsItself) {
  auto [encode, decode, infinity] = GetParam();
  for (uint32_t bits = 0; bits <= infinity; ++bits)
    for (uint32_t sign : {0U, 0x8000U}) {
      auto pattern = static_cast<uint16_t>(bits | sign);
      EXPECT_EQ(encode(decode(pattern)), pattern);
    }
}

TEST_P(NarrowFloats, OthersBecomeTheNearestOrTheEvenOne) {
  auto [encode, decode, infinity] = GetParam();
  for (uint16_t low = 0; low + 1 < infinity; ++low) {
    uint16_t high = low + 1;
    double middle = (decode(low) + decode(high)) / 2;
    EXPECT_EQ(encode(middle), low % 2 ? high : low);
    EXPECT_EQ(encode(std::nextafter(float(middle), 0.0F)), low);
    EXPECT_EQ(encode(std::nextafter(float(middle),
                                    std::numeric_limits<float>::infinity())),
              high);
  }
}

TEST_P(NarrowFloats, WhatIsTooLargeIsInfinite) {
  auto [encode, decode, infinity] = GetParam();
  auto largest = static_cast<uint16_t>(infinity - 1);
  double step = decode(largest) - decode(static_cast<uint16_t>(largest - 1));
  EXPECT_EQ(encode(decode(largest) + step / 2), infinity);
  EXPECT_EQ(encode(std::numeric_limits<double>::infinity()), infinity);
  EXPECT_EQ(encode(-std::numeric_limits<double>::infinity()),
            infinity | 0x8000);
  EXPECT_TRUE(std::isinf(decode(infinity)));
}

TEST_P(NarrowFloats, NaNStaysOne) {
  auto [encode, decode, infinity] = GetParam();
  EXPECT_TRUE(std::isnan(decode(encode(NAN))));
  // The one that is larger than infinity by a bit that is not kept.
  EXPECT_TRUE(std::isnan(decode(encode(std::bit_cast<float>(0x7f800001)))));
}

INSTANTIATE_TEST_SUITE_P(Formats, NarrowFloats,
                         testing::Values(Format{encodeBF16, decodeBF16, 0x7f80},
                                         Format{encodeF16, decodeF16, 0x7c00}));
