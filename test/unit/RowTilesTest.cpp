//===- RowTilesTest.cpp - Classes of tiles of masks that use rows ---------===//
//
// These tests are those of MaskTilesTest for masks of values of rows: ids of
// documents, positions, times. Values are drawn from a pool with the ends of
// i32, infinities and NaN; a class is checked against every pair of the tile.
//
//===----------------------------------------------------------------------===//

#include "MaskFunctions.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <random>

using llvm::ArrayRef;
using namespace sextant::test;

namespace {
/// A mask of values that belong to rows.
struct Case {
  const char *name;
  const char *type; ///< of %x and %y
  const char *body; ///< see compileMask
};
} // namespace

static const Case cases[] = {
    {"equal", "i32", "%v = arith.cmpi eq, %x, %y : i32"},
    {"not_equal", "i32", "%v = arith.cmpi ne, %x, %y : i32"},
    {"nonzero", "i32", "%v = arith.cmpi ne, %y, %c0 : i32"},
    {"unsigned_less", "i32", "%v = arith.cmpi ult, %x, %y : i32"},
    {"wrapping_sum", "i32",
     "%a = arith.addi %x, %y : i32\n%v = arith.cmpi slt, %a, %c3 : i32"},
    {"wrapping_difference", "i32",
     "%a = arith.subi %x, %y : i32\n%v = arith.cmpi sge, %a, %c0 : i32"},
    {"wrapping_product", "i32",
     "%a = arith.muli %x, %y : i32\n%v = arith.cmpi slt, %a, %c3 : i32"},
    {"wrapping_absolute", "i32",
     "%a = math.absi %x : i32\n%v = arith.cmpi slt, %a, %c3 : i32"},
    {"distance", "i32",
     "%a = arith.subi %x, %y : i32\n%b = math.absi %a : i32\n"
     "%v = arith.cmpi sle, %b, %c2 : i32"},
    {"with_index", "i32",
     "%a = arith.addi %x, %o : i32\n%b = arith.muli %a, %c3 : i32\n"
     "%v = arith.cmpi sle, %b, %y : i32"},
    {"remainder", "i32",
     "%a = arith.remsi %x, %c3 : i32\n%b = arith.divsi %y, %c3 : i32\n"
     "%v = arith.cmpi eq, %a, %b : i32"},
    {"same_or_past", "i32",
     "%a = arith.cmpi eq, %x, %y : i32\n%b = arith.cmpi sle, %j, %i : i32\n"
     "%v = arith.andi %a, %b : i1"},
    {"less", "f32", "%v = arith.cmpf olt, %x, %y : f32"},
    {"less_or_nan", "f32", "%v = arith.cmpf ult, %x, %y : f32"},
    {"at_most", "f32", "%v = arith.cmpf ole, %x, %y : f32"},
    {"above_or_nan", "f32", "%v = arith.cmpf ugt, %x, %y : f32"},
    {"at_least", "f32", "%v = arith.cmpf oge, %x, %y : f32"},
    {"float_equal", "f32", "%v = arith.cmpf oeq, %x, %y : f32"},
    {"float_equal_or_nan", "f32", "%v = arith.cmpf ueq, %x, %y : f32"},
    {"float_unequal", "f32", "%v = arith.cmpf one, %x, %y : f32"},
    {"float_unequal_or_nan", "f32", "%v = arith.cmpf une, %x, %y : f32"},
    {"ordered", "f32", "%v = arith.cmpf ord, %x, %y : f32"},
    {"float_sum", "f32",
     "%a = arith.addf %x, %y : f32\n%v = arith.cmpf ole, %a, %one : f32"},
    {"float_difference", "f32",
     "%a = arith.subf %x, %y : f32\n%b = math.absf %a : f32\n"
     "%v = arith.cmpf ule, %b, %one : f32"},
    {"float_product", "f32",
     "%a = arith.mulf %x, %y : f32\n%v = arith.cmpf oge, %a, %one : f32"},
    {"float_negated", "f32",
     "%a = arith.negf %x : f32\n%v = arith.cmpf ult, %a, %y : f32"},
    {"float_bounds", "f32",
     "%a = arith.minimumf %x, %y : f32\n%b = arith.maxnumf %x, %one : f32\n"
     "%v = arith.cmpf olt, %a, %b : f32"},
    {"float_selected", "f32",
     "%c = arith.cmpf olt, %x, %one : f32\n"
     "%a = arith.select %c, %x, %y : f32\n"
     "%v = arith.cmpf ule, %a, %one : f32"},
    {"float_of_index", "f32",
     "%a = arith.sitofp %j : i32 to f32\n%b = arith.addf %a, %x : f32\n"
     "%v = arith.cmpf olt, %b, %y : f32"},
};

/// The bits of the smallest and of the largest of some values; both those of a
/// NaN if one of them is.
template <typename T> static std::pair<int, int> getRange(ArrayRef<T> values) {
  T low = values[0], high = values[0];
  for (T value : values) {
    if (value != value) // NaN
      return {llvm::bit_cast<int>(value), llvm::bit_cast<int>(value)};
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return {llvm::bit_cast<int>(low), llvm::bit_cast<int>(high)};
}

/// Checks every tile of a square of rows whose values are out of `pool`.
template <typename T> static void check(const Case &test, ArrayRef<T> pool) {
  MaskFunctions mask = compileMask(test.body, test.type);
  ASSERT_TRUE(mask.point && mask.tile);
  constexpr int count = 6;
  std::mt19937 draw(freshSeed());
  int decided = 0;
  for (int round = 0; round < 40; ++round) {
    // Now and then few values side by side, as ids of documents are.
    int spread = round % 4 ? pool.size() : 2;
    T x[count], y[count];
    for (T *values : {x, y}) {
      int start = draw() % pool.size();
      for (int row = 0; row < count; ++row)
        values[row] = pool[(start + draw() % spread) % pool.size()];
    }
    for (int i0 = 0; i0 < count; ++i0)
      for (int i1 = i0; i1 < count; ++i1)
        for (int j0 = 0; j0 < count; ++j0)
          for (int j1 = j0; j1 < count; ++j1) {
            bool all = true, any = false;
            for (int i = i0; i <= i1; ++i)
              for (int j = j0; j <= j1; ++j) {
                bool visible = mask.point(i, j, llvm::bit_cast<int>(x[i]),
                                          llvm::bit_cast<int>(y[j]));
                all &= visible;
                any |= visible;
              }
            auto [x0, x1] = getRange(ArrayRef<T>(x).slice(i0, i1 - i0 + 1));
            auto [y0, y1] = getRange(ArrayRef<T>(y).slice(j0, j1 - j0 + 1));
            int got = mask.tile(i0, i1, j0, j1, x0, x1, y0, y1);
            bool certain = got & 1, possible = got & 2;
            ASSERT_TRUE(all || !certain) << "full";
            ASSERT_TRUE(!any || possible) << "empty";
            decided += certain || !possible;
          }
  }
  // "Unknown" is never wrong: some must be known.
  EXPECT_GT(decided, 0);
}

class RowTiles : public testing::TestWithParam<Case> {};

TEST_P(RowTiles, AgreesWithEveryPoint) {
  constexpr int lowest = std::numeric_limits<int>::min();
  constexpr int highest = std::numeric_limits<int>::max();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (GetParam().type == std::string("i32"))
    check<int>(GetParam(), {0, 1, 2, 3, -1, -2, 7, 40000, -70000, highest,
                            highest - 1, lowest, lowest + 1, 1 << 30});
  else
    check<float>(GetParam(),
                 {0.0f, -0.0f, 1.0f, 2.0f, 2.5f, -1.0f, -3.0f, 1e-40f, 3e38f,
                  -3e38f, infinity, -infinity, std::nanf(""), 1.0000001f});
}

INSTANTIATE_TEST_SUITE_P(Masks, RowTiles, testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });
