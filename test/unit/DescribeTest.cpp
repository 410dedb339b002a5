//===- DescribeTest.cpp - Catalog of encodings ----------------------------===//

#include "passes/Encoding/Describe.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace sextant::passes;

/// Value of an expectation that a test needs to go on.
template <typename T> static T get(llvm::Expected<T> value) {
  EXPECT_TRUE(static_cast<bool>(value));
  if (!value) {
    ADD_FAILURE() << llvm::toString(value.takeError());
    return T();
  }
  return std::move(*value);
}

static std::vector<ParamInfo> params(const std::string &uses,
                                     const Extents &extents,
                                     const std::string &definitions = "") {
  Catalog catalog;
  return get(catalog.getParams(definitions, uses, extents));
}

static std::string errorOf(const std::string &uses,
                           const std::string &definitions = "") {
  Catalog catalog;
  auto result = catalog.getParams(definitions, uses, {});
  if (result)
    return "";
  return llvm::toString(result.takeError());
}

TEST(Describe, EveryInstalledEncodingIsDocumented) {
  Catalog catalog;
  std::vector<std::string> names = catalog.list();
  EXPECT_GE(names.size(), 5u);
  for (const std::string &name : names) {
    EncodingInfo info = get(catalog.describe(name));
    EXPECT_NE(info.formula, "") << name;
    EXPECT_NE(info.paper, "") << name;
    EXPECT_FALSE(info.places.empty()) << name;
  }
}

TEST(Describe, OptionsAndParameters) {
  Catalog catalog;
  EncodingInfo rope = get(catalog.describe("rope"));
  ASSERT_GE(rope.options.size(), 2u);
  EXPECT_EQ(rope.options[0].type, "choice");
  EXPECT_EQ(rope.options[0].defaultValue, "half");
  EXPECT_EQ(rope.options[0].choices.size(), 2u);
  EXPECT_EQ(rope.options[1].defaultValue, "10000");
  EXPECT_EQ(rope.places, std::vector<std::string>{"rows of query, key"});
  EncodingInfo t5 = get(catalog.describe("t5_bias"));
  EXPECT_EQ(t5.params[0].dims, (std::vector<std::string>{"buckets", "heads"}));
  EXPECT_EQ(t5.params[0].scope, "model");
  EncodingInfo kerple = get(catalog.describe("kerple_power"));
  EXPECT_EQ(kerple.params[1].ceiling, 2.0);
}

TEST(Describe, AlibiSlopesOfAnyHeadCount) {
  Extents extents;
  for (int64_t heads = 1; heads <= 40; ++heads) {
    extents.heads = heads;
    auto list = params("[#pos.use<@alibi, \"a\">]", extents);
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].name, "a.slopes");
    EXPECT_TRUE(list[0].frozen);
    ASSERT_EQ(list[0].values.size(), static_cast<size_t>(heads));
    int64_t power = 1;
    while (2 * power <= heads)
      power *= 2;
    for (int64_t h = 0; h < heads; ++h) {
      double exponent = h < power ? -8.0 * (h + 1) / power
                                  : -8.0 * (2 * (h - power) + 1) / (2 * power);
      EXPECT_NEAR(list[0].values[h], std::exp2(exponent), 1e-15);
    }
  }
}

/// (n / exact)^spread >= (far / exact)^k in integers too large for any type.
static bool reaches(int64_t n, int64_t exact, int64_t far, int64_t spread,
                    int64_t k) {
  // n^spread exact^k >= far^k exact^spread, by prime factors of 2 and logs in
  // extended precision: equality is caught by the tolerance.
  long double left = spread * std::log(static_cast<long double>(n)) +
                     k * std::log(static_cast<long double>(exact));
  long double right = k * std::log(static_cast<long double>(far)) +
                      spread * std::log(static_cast<long double>(exact));
  return left >= right - 1e-13L;
}

TEST(Describe, T5ThresholdsAreTheIntegerOnes) {
  Extents extents;
  extents.heads = 1;
  extents.headDim = 64;
  auto list = params("[#pos.use<@t5_bias, \"t\">]", extents);
  std::vector<double> published{16, 19, 21, 24, 27, 31, 35, 40,
                                46, 52, 59, 67, 77, 87, 99, 113};
  EXPECT_EQ(list[1].values, published);
  auto both =
      params("[#pos.use<@t5_bias, \"t\", {bidirectional = true}>]", extents);
  EXPECT_EQ(both[1].values,
            (std::vector<double>{8, 12, 16, 23, 32, 46, 64, 91}));
  for (auto [buckets, far] : {std::pair<int, int>{32, 256},
                              {64, 128},
                              {64, 512},
                              {32, 1024},
                              {128, 1024},
                              {20, 100}}) {
    auto other = params(
        "[#pos.use<@t5_bias, \"t\", {buckets = " + std::to_string(buckets) +
            " : i32, max_distance = " + std::to_string(far) + " : i32}>]",
        extents);
    int64_t exact = buckets / 2, spread = buckets - exact;
    for (int64_t k = 0; k < spread; ++k) {
      auto threshold = static_cast<int64_t>(other[1].values[k]);
      EXPECT_TRUE(reaches(threshold, exact, far, spread, k));
      EXPECT_FALSE(reaches(threshold - 1, exact, far, spread, k));
    }
  }
}

TEST(Describe, SizesWithoutExtentsAreUnknown) {
  auto list = params("[#pos.use<@t5_bias, \"t\">]", {});
  EXPECT_EQ(list[0].sizes, (std::vector<int64_t>{32, -1}));
  EXPECT_TRUE(list[0].arguments.empty());
}

TEST(Describe, OwnDefinitionsComeFirst) {
  Extents extents;
  extents.heads = 3;
  auto list = params("[#pos.use<@mine, \"m\", {n = 2}>]", extents, R"(
    pos.encoding @mine {
      %n = pos.option "n" : i32 = 1 : i32
      %h = pos.extent heads
      %z = arith.constant 0.5 : f32
      %p = pos.param "p" : tensor<?x?xf32> dims(%n, %h) init constant(%z)
    })");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(list[0].init, InitKind::Constant);
  EXPECT_EQ(list[0].arguments, std::vector<double>{0.5});
}

TEST(Describe, ErrorsNameTheCause) {
  EXPECT_NE(errorOf("[#pos.use<@kerple_lok, \"k\">]").find("kerple_log"),
            std::string::npos);
  EXPECT_NE(errorOf("[#pos.use<@rope, \"r\", {bas = 3.0}>]").find("'base'"),
            std::string::npos);
  EXPECT_NE(
      errorOf("[#pos.use<@rope, \"r\", {pairing = \"hal\"}>]").find("'half'"),
      std::string::npos);
  EXPECT_NE(errorOf("[]", "pos.encoding @x { nonsense }").find(":1:"),
            std::string::npos);
}
