//===- HeadRunsTest.cpp - Heads that share keys pass together -------------===//
//
// Each run of heads reads the keys and values of its group once. Runs are cut
// out of ranges of heads as threads take them, so what a call reads is counted
// from both, with numbers that are constants and fold.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/Forward/HeadRuns.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/cpu/ItemRanges.h"
#include "gtest/gtest.h"
#include <tuple>
#include <vector>

using namespace sextant::codegen;
using sextant::runtime::ItemRanges;

namespace {
/// Runs of a call: of `heads` heads, by `group` and in runs of up to `most`.
class HeadRunsTest : public testing::Test {
protected:
  HeadRunsTest() {
    context.loadDialect<mlir::LLVM::LLVMDialect, mlir::arith::ArithDialect>();
    target.width = 8;
  }

  /// How often keys pass, of one head each, where `workers` take turns; every
  /// head must be in one run, with heads of its group only.
  int64_t countPasses(int64_t heads, int64_t group, int64_t most,
                      int64_t workers) {
    mlir::OpBuilder builder(&context);
    mlir::Block entry;
    KernelBuilder kernel(builder, builder.getUnknownLoc(), entry, target);
    HeadRuns runs(kernel, group, most);
    ItemRanges ranges(heads, workers, group);
    std::vector<int> seen(heads);
    int64_t passes = 0;
    for (auto [begin, end] = ranges.take(); begin < end;
         std::tie(begin, end) = ranges.take()) {
      int64_t last = runs.find(end - 1).getConstant();
      for (int64_t run = runs.find(begin).getConstant(); run <= last; ++run) {
        auto [low, high] = runs.clip(run, {begin, end});
        int64_t first = low.getConstant(), behind = high.getConstant();
        EXPECT_LT(first, behind);
        EXPECT_LE(behind - first, most);
        EXPECT_EQ(first / group, (behind - 1) / group);
        for (int64_t head = first; head < behind; ++head)
          ++seen[head];
        ++passes;
      }
    }
    EXPECT_EQ(seen, std::vector<int>(heads, 1))
        << heads << " heads, " << group << " to a head of keys, runs of up to "
        << most << ", " << workers << " workers";
    EXPECT_TRUE(entry.empty());
    return passes;
  }

private:
  mlir::MLIRContext context;
  VectorTarget target;
};
} // namespace

TEST_F(HeadRunsTest, KeysPassOncePerGroupAndThread) {
  // 32 heads over 8.
  for (int64_t workers : {1, 2, 3, 4, 8})
    EXPECT_EQ(countPasses(32, 4, 16, workers), 8) << workers << " workers";
  EXPECT_EQ(countPasses(32, 4, 16, 16), 16);
  EXPECT_EQ(countPasses(32, 4, 16, 64), 32);
  // One batch, two heads of keys: threads share a group.
  EXPECT_EQ(countPasses(16, 8, 16, 2), 2);
  EXPECT_EQ(countPasses(16, 8, 16, 4), 4);
  EXPECT_EQ(countPasses(16, 8, 16, 16), 16);
  // One head of keys, and more heads than an item has room for.
  EXPECT_EQ(countPasses(8, 8, 16, 1), 1);
  EXPECT_EQ(countPasses(8, 8, 16, 2), 2);
  EXPECT_EQ(countPasses(64, 64, 16, 1), 4);
  // Each head has keys of its own.
  EXPECT_EQ(countPasses(12, 1, 16, 2), 12);
}

TEST_F(HeadRunsTest, RunsCoverEveryHeadOnce) {
  for (int64_t group : {1, 2, 3, 5, 17, 40})
    for (int64_t groups : {1, 2, 6})
      for (int64_t most : {1, 3, 16})
        for (int64_t workers : {1, 2, 3, 7, 16})
          countPasses(group * groups, group, most, workers);
}

/// Nobody waits long for the last range: none is longer than a worker's share
/// by as many items as belong together.
TEST(ItemRanges, WorkersHaveEvenShares) {
  for (int64_t workers : {2, 3, 4, 8, 16})
    for (int64_t together : {1, 2, 4, 8, 17})
      for (int64_t count : {1, 8, 34, 136, 1024}) {
        ItemRanges ranges(count, workers, together);
        int64_t next = 0, longest = 0;
        for (auto [begin, end] = ranges.take(); begin < end;
             std::tie(begin, end) = ranges.take()) {
          EXPECT_EQ(begin, next);
          longest = std::max(longest, end - begin);
          next = end;
        }
        EXPECT_EQ(next, count);
        int64_t share = (count + workers - 1) / workers;
        EXPECT_LT(longest, share + together)
            << count << " items, " << together << " together, " << workers
            << " workers";
      }
}
