//===- MaskTilesTest.cpp - Classes of tiles against every point -----------===//
//
// A tile called empty must hold no visible pair, a tile called full no hidden
// one, for every tile of a small square. How often a class is decided is
// checked as well, since "unknown" is never wrong.
//
//===----------------------------------------------------------------------===//

#include "MaskFunctions.h"
#include "gtest/gtest.h"

using namespace sextant::test;

namespace {
/// A mask, and whether its tiles are told apart without a mistake.
struct Case {
  const char *name;
  const char *body; ///< of %i, %j, %o, to %v
  bool exact;       ///< every empty and every full tile is recognised
};
} // namespace

static const Case cases[] = {
    {"causal", "%v = arith.cmpi sle, %j, %i : i32", true},
    {"strict", "%v = arith.cmpi sgt, %i, %j : i32", true},
    {"all", "%v = arith.constant true", true},
    {"none", "%v = arith.constant false", true},
    {"window",
     "%a = arith.cmpi sle, %o, %c0 : i32\n%n = arith.subi %c0, %o : i32\n"
     "%b = arith.cmpi slt, %n, %c3 : i32\n%v = arith.andi %a, %b : i1",
     false},
    {"two_sided", "%n = math.absi %o : i32\n%v = arith.cmpi slt, %n, %c3 : i32",
     true},
    {"prefix",
     "%a = arith.cmpi slt, %j, %c3 : i32\n%b = arith.cmpi sle, %j, %i : i32\n"
     "%v = arith.ori %a, %b : i1",
     false},
    {"diagonal", "%v = arith.cmpi eq, %i, %j : i32", true},
    {"off_diagonal", "%v = arith.cmpi ne, %i, %j : i32", true},
    {"blocks",
     "%a = arith.divsi %i, %c3 : i32\n%b = arith.divsi %j, %c3 : i32\n"
     "%v = arith.cmpi eq, %a, %b : i32",
     true},
    {"dilated",
     "%r = arith.remsi %o, %c2 : i32\n%v = arith.cmpi eq, %r, %c0 : i32",
     false},
    {"negated",
     "%true = arith.constant true\n%a = arith.cmpi sle, %j, %i : i32\n"
     "%v = arith.xori %a, %true : i1",
     true},
    {"either_one",
     "%a = arith.cmpi slt, %j, %c3 : i32\n%b = arith.cmpi slt, %i, %c2 : i32\n"
     "%v = arith.xori %a, %b : i1",
     false},
    {"selected",
     "%a = arith.cmpi slt, %i, %c3 : i32\n%b = arith.cmpi sle, %j, %i : i32\n"
     "%d = arith.cmpi slt, %j, %c2 : i32\n"
     "%v = arith.select %a, %b, %d : i1",
     false},
    {"selected_bound",
     "%a = arith.cmpi slt, %i, %c3 : i32\n"
     "%b = arith.select %a, %c2, %i : i32\n"
     "%v = arith.cmpi sle, %j, %b : i32",
     false},
    {"unsigned", "%v = arith.cmpi ult, %o, %c3 : i32", false},
    {"bounds",
     "%a = arith.minsi %i, %c3 : i32\n%b = arith.maxsi %j, %c2 : i32\n"
     "%v = arith.cmpi slt, %a, %b : i32",
     true},
    {"wrapping", // to -2^31 in the first rows
     "%least = arith.constant -1073741824 : i32\n"
     "%a = arith.cmpi slt, %i, %c3 : i32\n"
     "%b = arith.select %a, %least, %c0 : i32\n"
     "%n = math.absi %b : i32\n%s = arith.addi %n, %n : i32\n"
     "%v = arith.cmpi slt, %s, %c0 : i32",
     false},
    {"product",
     "%a = arith.muli %o, %i : i32\n%v = arith.cmpi slt, %a, %c3 : i32", false},
    {"unknown_op",
     "%a = arith.andi %i, %j : i32\n%v = arith.cmpi eq, %a, %c0 : i32", false},
    {"unknown_and_causal",
     "%a = arith.andi %i, %j : i32\n%b = arith.cmpi eq, %a, %c0 : i32\n"
     "%d = arith.cmpi sle, %j, %i : i32\n%v = arith.andi %b, %d : i1",
     false},
};

class MaskTiles : public testing::TestWithParam<Case> {};

TEST_P(MaskTiles, AgreesWithEveryPoint) {
  const Case &test = GetParam();
  MaskFunctions mask = compileMask(test.body);
  ASSERT_TRUE(mask.point && mask.tile);
  constexpr int low = -2, high = 8; // fewer keys than queries: below 0
  int missed = 0;
  for (int i0 = low; i0 < high; ++i0)
    for (int i1 = i0; i1 < high; ++i1)
      for (int j0 = 0; j0 < high; ++j0)
        for (int j1 = j0; j1 < high; ++j1) {
          bool all = true, any = false;
          for (int i = i0; i <= i1; ++i)
            for (int j = j0; j <= j1; ++j) {
              bool visible = mask.point(i, j, 0, 0);
              all &= visible;
              any |= visible;
            }
          int got = mask.tile(i0, i1, j0, j1, 0, 0, 0, 0);
          bool certain = got & 1, possible = got & 2;
          EXPECT_TRUE(all || !certain)
              << "full: " << i0 << " " << i1 << " " << j0 << " " << j1;
          EXPECT_TRUE(!any || possible)
              << "empty: " << i0 << " " << i1 << " " << j0 << " " << j1;
          missed += certain != all || possible != any;
        }
  if (test.exact)
    EXPECT_EQ(missed, 0);
}

INSTANTIATE_TEST_SUITE_P(Masks, MaskTiles, testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });
