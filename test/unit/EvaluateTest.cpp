//===- EvaluateTest.cpp - Compile-time values of definitions --------------===//
//
// Initial values and sizes of parameters are computed from their definitions
// and compared with the published formulas.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Evaluate.h"
#include "mlir/Parser/Parser.h"
#include "passes/Encoding/EncodingLibrary.h"
#include "passes/Encoding/FoldOptions.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

namespace {
/// One use of an encoding: what its parameters are for given extents.
class EvaluateTest : public ::testing::Test {
protected:
  EvaluateTest() {
    DialectRegistry registry;
    registerEncodingDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Loads an installed encoding and folds its options.
  void use(StringRef name, ArrayRef<NamedAttribute> options = {}) {
    EncodingLibrary library(&context, SearchPath(""), ModuleOp());
    auto found = library.find(name, UnknownLoc::get(&context));
    ASSERT_TRUE(succeeded(found));
    auto values =
        getOptionValues(*found, DictionaryAttr::get(&context, options),
                        UnknownLoc::get(&context));
    ASSERT_TRUE(succeeded(values));
    definition = found->clone();
    foldOptions(*definition, *values);
  }

  NamedAttribute option(StringRef name, int value) {
    return {StringAttr::get(&context, name),
            Builder(&context).getI32IntegerAttr(value)};
  }

  pos::ParamOp param(StringRef name) {
    for (auto param : definition->getOps<pos::ParamOp>())
      if (param.getName() == name)
        return param;
    return {};
  }

  /// Initial values of a parameter of one dimension.
  std::vector<double> values(StringRef name) {
    Evaluator evaluator(*definition,
                        Evaluator::withExtents([&](pos::Extent extent) {
                          return extent == pos::Extent::heads ? heads : model;
                        }));
    auto result = evaluator.getInitialValues(param(name),
                                             evaluator.getSizes(param(name)));
    return succeeded(result) ? *result : std::vector<double>();
  }

  MLIRContext context;
  OwningOpRef<pos::EncodingOp> definition;
  std::optional<int64_t> heads, model;
};
} // namespace

TEST_F(EvaluateTest, SlopesOfAnyHeadCount) {
  for (int64_t count = 1; count <= 40; ++count) {
    heads = count;
    use("alibi");
    std::vector<double> slopes = values("slopes");
    ASSERT_EQ(slopes.size(), static_cast<size_t>(count));
    int64_t power = 1;
    while (2 * power <= count)
      power *= 2;
    for (int64_t h = 0; h < count; ++h) {
      double exponent = h < power ? -8.0 * (h + 1) / power
                                  : -8.0 * (2 * (h - power) + 1) / (2 * power);
      EXPECT_NEAR(slopes[h], std::exp2(exponent), 1e-15);
    }
  }
}

TEST_F(EvaluateTest, ThresholdsAreThePublishedOnes) {
  use("t5_bias");
  EXPECT_EQ(values("thresholds"),
            (std::vector<double>{16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67,
                                 77, 87, 99, 113}));
  NamedAttribute both{StringAttr::get(&context, "bidirectional"),
                      BoolAttr::get(&context, true)};
  use("t5_bias", both);
  EXPECT_EQ(values("thresholds"),
            (std::vector<double>{8, 12, 16, 23, 32, 46, 64, 91}));
}

/// (n / exact)^spread >= (far / exact)^k; far from a tie, logarithms in
/// extended precision decide, and a tie counts.
static bool reaches(int64_t n, int64_t exact, int64_t far, int64_t spread,
                    int64_t k) {
  auto log = [](int64_t x) { return std::log(static_cast<long double>(x)); };
  return spread * log(n) + k * log(exact) >=
         k * log(far) + spread * log(exact) - 1e-13L;
}

TEST_F(EvaluateTest, ThresholdsOfOtherSizes) {
  for (auto [buckets, far] : {std::pair<int, int>{32, 256},
                              {64, 128},
                              {64, 512},
                              {32, 1024},
                              {128, 1024},
                              {20, 100}}) {
    use("t5_bias", {option("buckets", buckets), option("max_distance", far)});
    int64_t exact = buckets / 2, spread = buckets - exact;
    std::vector<double> thresholds = values("thresholds");
    ASSERT_EQ(thresholds.size(), static_cast<size_t>(spread));
    for (int64_t k = 0; k < spread; ++k) {
      auto threshold = static_cast<int64_t>(thresholds[k]);
      EXPECT_TRUE(reaches(threshold, exact, far, spread, k));
      EXPECT_FALSE(reaches(threshold - 1, exact, far, spread, k));
    }
  }
}

TEST_F(EvaluateTest, UnknownExtentsGiveUnknownSizes) {
  use("t5_bias");
  Evaluator evaluator(*definition, Evaluator::withExtents([](pos::Extent) {
    return std::optional<int64_t>();
  }));
  EXPECT_EQ(evaluator.getSizes(param("table")), (SmallVector<int64_t>{32, -1}));
  EXPECT_FALSE(evaluator.evaluate(param("table").getInitArgs().back()));
  ASSERT_TRUE(evaluator.getUnknown());
  EXPECT_TRUE(isa<pos::ExtentOp>(evaluator.getUnknown()));
}

/// Arithmetic is in f64 although the definition says f32.
TEST_F(EvaluateTest, ComputesInDouble) {
  model = 3;
  use("t5_bias");
  Evaluator evaluator(
      *definition, Evaluator::withExtents([&](pos::Extent) { return model; }));
  auto deviation = dyn_cast_or_null<FloatAttr>(
      evaluator.evaluate(param("table").getInitArgs().back()));
  ASSERT_TRUE(deviation);
  EXPECT_EQ(deviation.getValueAsDouble(), 1 / std::sqrt(3.0));
}
