//===- DerivativeRulesTest.cpp - Every rule against finite differences ----===//
//
// A rule runs as the payload of a row map on the float64 reference: that is the
// whole way that it goes in a kernel. Kinks and poles are compared with what
// the rule states (C10).
//
//===----------------------------------------------------------------------===//

#include "ProgramRunner.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace sextant::test;

namespace {
/// An op, where its derivative is compared with finite differences, and what is
/// stated at single points.
struct Case {
  const char *name;
  const char *op;                  ///< of %x and %y, to %z
  double lowX, highX, lowY, highY; ///< where finite differences hold
  /// Points (x, y) with their stated derivatives (dx, dy).
  std::vector<std::array<double, 4>> stated;
};
} // namespace

static const Case cases[] = {
    {"addf", "arith.addf %x, %y : f32", -2, 2, -2, 2, {}},
    {"subf", "arith.subf %x, %y : f32", -2, 2, -2, 2, {}},
    {"mulf", "arith.mulf %x, %y : f32", -2, 2, -2, 2, {{0, 0, 0, 0}}},
    {"divf",
     "arith.divf %x, %y : f32",
     -2,
     2,
     0.5,
     2,
     {{1, 0, 0, 0}, {0, 0, 0, 0}}},
    {"negf", "arith.negf %x : f32", -2, 2, 0, 1, {}},
    {"remf", "arith.remf %x, %y : f32", 2.1, 2.9, 1.01, 1.04, {}},
    {"maximumf",
     "arith.maximumf %x, %y : f32",
     -2,
     -1,
     1,
     2,
     {{1, 1, 0.5, 0.5}, {2, 1, 1, 0}}},
    {"minimumf",
     "arith.minimumf %x, %y : f32",
     -2,
     -1,
     1,
     2,
     {{1, 1, 0.5, 0.5}, {2, 1, 0, 1}}},
    {"maxnumf", "arith.maxnumf %x, %y : f32", 1, 2, -2, -1, {{0, 0, 0.5, 0.5}}},
    {"minnumf", "arith.minnumf %x, %y : f32", 1, 2, -2, -1, {{0, 0, 0.5, 0.5}}},
    {"absf", "math.absf %x : f32", -2, -1, 0, 1, {{0, 0, 0, 0}, {2, 0, 1, 0}}},
    {"copysign",
     "math.copysign %x, %y : f32",
     -2,
     -1,
     1,
     2,
     {{0, 1, 0, 0}, {1, -1, -1, 0}}},
    {"exp", "math.exp %x : f32", -2, 2, 0, 1, {}},
    {"exp2", "math.exp2 %x : f32", -2, 2, 0, 1, {}},
    {"expm1", "math.expm1 %x : f32", -2, 2, 0, 1, {}},
    {"log", "math.log %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"log2", "math.log2 %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"log10", "math.log10 %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"log1p",
     "math.log1p %x : f32",
     -0.5,
     2,
     0,
     1,
     {{-1, 0, 0, 0}, {0, 0, 1, 0}}},
    {"sqrt", "math.sqrt %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"rsqrt", "math.rsqrt %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"cbrt", "math.cbrt %x : f32", 0.5, 2, 0, 1, {{0, 0, 0, 0}}},
    {"powf",
     "math.powf %x, %y : f32",
     0.5,
     2,
     -2,
     2,
     {{0, 2, 0, 0},
      {0, 1, 1, 0},
      {0, 0, 0, 0},
      {0, 0.5, 0, 0},
      {-2, 2, -4, 0},
      {0, -1, 0, 0}}},
    {"sin", "math.sin %x : f32", -3, 3, 0, 1, {}},
    {"cos", "math.cos %x : f32", -3, 3, 0, 1, {}},
    {"tan", "math.tan %x : f32", -1, 1, 0, 1, {}},
    {"sinh", "math.sinh %x : f32", -2, 2, 0, 1, {}},
    {"cosh", "math.cosh %x : f32", -2, 2, 0, 1, {}},
    {"tanh", "math.tanh %x : f32", -2, 2, 0, 1, {}},
    {"asin", "math.asin %x : f32", -0.9, 0.9, 0, 1, {{1, 0, 0, 0}}},
    {"acos", "math.acos %x : f32", -0.9, 0.9, 0, 1, {{-1, 0, 0, 0}}},
    {"atan", "math.atan %x : f32", -2, 2, 0, 1, {}},
    {"atan2", "math.atan2 %x, %y : f32", -2, 2, 0.5, 2, {{0, 0, 0, 0}}},
    {"asinh", "math.asinh %x : f32", -2, 2, 0, 1, {}},
    {"acosh", "math.acosh %x : f32", 1.5, 3, 0, 1, {{1, 0, 0, 0}}},
    {"atanh", "math.atanh %x : f32", -0.9, 0.9, 0, 1, {{1, 0, 0, 0}}},
    {"erf", "math.erf %x : f32", -2, 2, 0, 1, {}},
    {"erfc", "math.erfc %x : f32", -2, 2, 0, 1, {}},
    {"fma", "math.fma %x, %y, %x : f32", -2, 2, -2, 2, {}},
    {"clampf",
     "math.clampf %x to [%y, %four] : f32",
     1.5,
     3.5,
     -1,
     1,
     {{0, 0, 1, 0}, {0, 1, 0, 1}, {5, 0, 0, 0}}},
    {"floor", "math.floor %x : f32", 0.1, 0.9, 0, 1, {{1, 0, 0, 0}}},
    {"ceil", "math.ceil %x : f32", 0.1, 0.9, 0, 1, {{1, 0, 0, 0}}},
    {"round", "math.round %x : f32", 0.6, 0.9, 0, 1, {{0.5, 0, 0, 0}}},
    {"roundeven", "math.roundeven %x : f32", 0.6, 0.9, 0, 1, {}},
    {"trunc", "math.trunc %x : f32", 0.1, 0.9, 0, 1, {{0, 0, 0, 0}}},
    {"fpowi", "math.fpowi %x, %three : f32, i32", -2, 2, 0, 1, {{0, 0, 0, 0}}},
    {"select", "arith.select %less, %x, %y : f32", -2, -1, 1, 2, {}},
    {"sitofp", "arith.sitofp %lane : i32 to f32", -1, 1, 0, 1, {}},
    {"uitofp", "arith.uitofp %lane : i32 to f32", -1, 1, 0, 1, {}},
};

/// Rows of two lanes, x and y; the first result is the op's, the second 0.
/// Yields the op's result, or 0 times it.
static std::string moduleOf(const Case &test, bool isScaledByZero = false) {
  std::string sites = std::string(R"( {
    pos.rows of [embedding] half {
    ^bb0(%x: f32, %y: f32):
      %zero = arith.constant 0.0 : f32
      %four = arith.constant 4.0 : f32
      %three = arith.constant 3 : i32
      %lane = pos.lane
      %less = arith.cmpf olt, %x, %y : f32
      %z = )") + test.op +
                      R"(
      %scaled = arith.mulf %z, %zero : f32
      pos.yield )" + (isScaledByZero ? "%scaled" : "%z") +
                      R"(, %zero : f32, f32
    }
  })";
  return R"(
func.func @forward(%rows: tensor<?x?x2xf64>) -> tensor<?x?x2xf64> {
  %0 = pos.map_rows %rows of embedding : tensor<?x?x2xf64> -> tensor<?x?x2xf64>)" +
         sites + R"(
  return %0 : tensor<?x?x2xf64>
}
func.func @backward(%rows: tensor<?x?x2xf64>, %seed: tensor<?x?x2xf64>) -> tensor<?x?x2xf64> {
  %0 = pos.map_rows_backward %rows, %seed of embedding gradients []
    : tensor<?x?x2xf64>, tensor<?x?x2xf64> -> tensor<?x?x2xf64>)" +
         sites + R"(
  return %0 : tensor<?x?x2xf64>
})";
}

class DerivativeRules : public testing::TestWithParam<Case> {};

TEST_P(DerivativeRules, MatchesFiniteDifferences) {
  const Case &test = GetParam();
  auto program = Program::compile(moduleOf(test), "reference");
  ASSERT_TRUE(program);
  constexpr int64_t count = 32;
  unsigned seed = freshSeed();
  Tensor xs = Tensor::random("f64", {count}, seed, test.lowX, test.highX);
  Tensor ys = Tensor::random("f64", {count}, seed + 1, test.lowY, test.highY);
  Tensor rows("f64", {1, count, 2}), seeds("f64", {1, count, 2});
  for (int64_t i = 0; i < count; ++i) {
    rows.set(2 * i, xs.get(i));
    rows.set(2 * i + 1, ys.get(i));
    seeds.set(2 * i, 1 + 0.1 * i);
    seeds.set(2 * i + 1, 7); // of the constant: has no effect
  }
  Tensor gradient = program->run("backward", {rows, seeds})[0];
  for (int64_t lane : {0, 1}) {
    // Central differences: error h^2 f''' / 6 + 2^-52 f / h.
    constexpr double step = 1e-5;
    Tensor up = rows.as("f64"), down = rows.as("f64");
    for (int64_t i = 0; i < count; ++i) {
      up.set(2 * i + lane, up.get(2 * i + lane) + step);
      down.set(2 * i + lane, down.get(2 * i + lane) - step);
    }
    Tensor above = program->run("forward", {up})[0];
    Tensor below = program->run("forward", {down})[0];
    for (int64_t i = 0; i < count; ++i) {
      double want =
          (above.get(2 * i) - below.get(2 * i)) / (2 * step) * seeds.get(2 * i);
      EXPECT_NEAR(gradient.get(2 * i + lane), want,
                  1e-7 * (1 + std::fabs(want)))
          << test.name << " at (" << rows.get(2 * i) << ", "
          << rows.get(2 * i + 1) << "), lane " << lane;
    }
  }
}

TEST_P(DerivativeRules, IsAsStatedAtKinks) {
  const Case &test = GetParam();
  if (test.stated.empty())
    return; // no kink
  auto program = Program::compile(moduleOf(test), "reference");
  ASSERT_TRUE(program);
  int64_t count = test.stated.size();
  Tensor rows("f64", {1, count, 2}), seeds("f64", {1, count, 2});
  for (int64_t i = 0; i < count; ++i) {
    rows.set(2 * i, test.stated[i][0]);
    rows.set(2 * i + 1, test.stated[i][1]);
    seeds.set(2 * i, 1);
  }
  Tensor gradient = program->run("backward", {rows, seeds})[0];
  for (int64_t i = 0; i < count; ++i)
    for (int64_t lane : {0, 1})
      EXPECT_DOUBLE_EQ(gradient.get(2 * i + lane), test.stated[i][2 + lane])
          << test.name << " at (" << test.stated[i][0] << ", "
          << test.stated[i][1] << "), lane " << lane;
}

/// Next to a pole a slope may be larger than any number, beside a cotangent
/// that a later op has made 0. A seed of 0 would not get that far
/// (PayloadPullback).
TEST_P(DerivativeRules, GiveZeroOfZero) {
  const Case &test = GetParam();
  auto program =
      Program::compile(moduleOf(test, /*isScaledByZero=*/true), "reference");
  ASSERT_TRUE(program);
  constexpr double near = 1e-250;
  Tensor rows("f64", {1, 3, 2}), seeds("f64", {1, 3, 2});
  for (int64_t i = 0; i < 3; ++i) {
    rows.set(2 * i, near);
    rows.set(2 * i + 1, std::array{-1.0, near, 1.0}[i]);
    seeds.set(2 * i, 1);
    seeds.set(2 * i + 1, 0);
  }
  Tensor gradient = program->run("backward", {rows, seeds})[0];
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(gradient.get(i), 0)
        << test.name << " at (" << near << ", " << rows.get(i | 1) << ")";
}

INSTANTIATE_TEST_SUITE_P(Ops, DerivativeRules, testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST(DerivativeRulesErrors, MissingRuleNamesTheOp) {
  std::string bits = "arith.bitcast %bits : i32 to f32";
  std::string text = moduleOf({"bitcast", bits.c_str(), 0, 1, 0, 1, {}});
  std::string define = "%bits = arith.bitcast %x : f32 to i32\n      %less = ";
  for (size_t at = 0; (at = text.find("%less = ", at)) != std::string::npos;
       at += define.size())
    text.replace(at, 8, define);
  for (size_t at; (at = text.find("f64")) != std::string::npos;)
    text.replace(at, 3, "f32");
  // The bits of a value follow it, but an integer carries no gradient: zero
  // would be wrong.
  std::string error;
  EXPECT_FALSE(Program::compile(text, "reference", &error));
  EXPECT_NE(error.find("'arith.bitcast' op has no derivative rule"),
            std::string::npos)
      << error;
  for (size_t at; (at = text.find(bits)) != std::string::npos;)
    text.replace(at, bits.size(), "arith.extui %less : i1 to i32");
  EXPECT_FALSE(Program::compile(text, "reference", &error));
}
