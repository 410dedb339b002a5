//===- WarpTest.cpp - Threads of an emulated warp -------------------------===//
//
// Functions of threads as compiled kernels are: they see their warp by the
// calls that the emulator gives them. What a GPU leaves undefined is seeded
// here as a fault and must be found.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/Warp.h"
#include "gtest/gtest.h"
#include <array>
#include <set>
#include <vector>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

namespace {
/// What threads of a test write to: one element each.
struct Memory {
  std::array<int32_t, warpThreads> shared, seen;
  std::vector<int32_t> order;
};
} // namespace

/// Runs a function in a warp; `begin` is its only item.
static Status run(ThreadFunction function, Memory &memory, int64_t begin = 0) {
  getWarpCalls().run("kernel", function, nullptr, begin, begin + 1, &memory);
  return takeFailure();
}

static Memory &get(void *scratch) { return *static_cast<Memory *>(scratch); }

static int32_t me() { return getWarpCalls().getThread(); }

TEST(Warp, ShufflesAndBallots) {
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    const WarpCalls &warp = getWarpCalls();
    int32_t thread = me();
    int32_t next = warp.shuffle(100 + thread, (thread + 1) % warpThreads, 0);
    int32_t odd = warp.ballot(thread & 1, 1);
    get(scratch).seen[thread] = next + (odd == int32_t(0xaaaaaaaa) ? 1000 : 0);
  };
  Memory memory;
  ASSERT_TRUE(run(function, memory));
  for (int i = 0; i != warpThreads; ++i)
    EXPECT_EQ(memory.seen[i], 1100 + (i + 1) % warpThreads);
}

TEST(Warp, StoresAreSeenBehindABarrier) {
  auto function = [](const int64_t *, int64_t begin, int64_t, void *scratch) {
    Memory &memory = get(scratch);
    int32_t thread = me();
    memory.shared[thread] = begin + thread;
    getWarpCalls().synchronize(0);
    memory.seen[thread] = memory.shared[warpThreads - 1 - thread];
    getWarpCalls().synchronize(1);
  };
  for (int64_t begin = 0; begin != 20; ++begin) {
    Memory memory;
    ASSERT_TRUE(run(function, memory, begin));
    for (int i = 0; i != warpThreads; ++i)
      ASSERT_EQ(memory.seen[i], begin + warpThreads - 1 - i);
  }
}

TEST(Warp, AMissingBarrierShows) {
  auto function = [](const int64_t *, int64_t begin, int64_t, void *scratch) {
    Memory &memory = get(scratch);
    int32_t thread = me();
    memory.shared[thread] = begin + thread;
    memory.seen[thread] = memory.shared[warpThreads - 1 - thread];
    getWarpCalls().synchronize(0);
  };
  Memory memory;
  memory.shared.fill(-1);
  ASSERT_TRUE(run(function, memory));
  int stale = 0;
  for (int32_t seen : memory.seen)
    stale += seen == -1;
  EXPECT_EQ(stale, warpThreads / 2); // of each pair, the one that comes first
}

TEST(Warp, OrdersAreDrawnBySeed) {
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    for (int32_t place = 0; place != 4; ++place) {
      get(scratch).order.push_back(me());
      getWarpCalls().synchronize(place);
    }
  };
  auto getOrder = [&](uint64_t seed) {
    setSeed(seed);
    Memory memory;
    EXPECT_TRUE(run(function, memory));
    return memory.order;
  };
  std::set<std::vector<int32_t>> orders;
  for (uint64_t seed = 0; seed != 8; ++seed)
    orders.insert(getOrder(seed));
  EXPECT_EQ(orders.size(), 8u);
  EXPECT_EQ(getOrder(3), getOrder(3));
  for (const std::vector<int32_t> &order : orders) {
    std::multiset<int32_t> threads(order.begin(), order.end());
    for (int i = 0; i != warpThreads; ++i)
      EXPECT_EQ(threads.count(i), 4u);
  }
  setSeed(1);
}

TEST(Warp, ThreadsThatMeetAtDifferentInstructionsAreAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    if (me() < 5)
      (void)getWarpCalls().shuffle(1, 0, 7);
    else
      getWarpCalls().synchronize(8);
  };
  Memory memory;
  Status status = run(function, memory);
  ASSERT_FALSE(status);
  std::string text = status.error().message();
  EXPECT_NE(text.find("kernel 'kernel': threads of a warp meet at different "
                      "instructions: thread "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a shuffle (number 7)"), std::string::npos) << text;
  EXPECT_NE(text.find("a barrier (number 8)"), std::string::npos) << text;
}

TEST(Warp, OneInstructionInTwoPlacesIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    getWarpCalls().synchronize(me() == 31 ? 1 : 0);
  };
  Memory memory;
  EXPECT_FALSE(run(function, memory));
}

TEST(Warp, AThreadThatEndsBeforeOthersMeetIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    if (me() != 9)
      (void)getWarpCalls().ballot(1, 0);
  };
  for (uint64_t seed = 0; seed != 8; ++seed) {
    setSeed(seed);
    Memory memory;
    Status status = run(function, memory);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message().find("ended"), std::string::npos);
  }
  setSeed(1);
}

TEST(Warp, AWarpRunsAgainAfterAFailure) {
  auto fails = [](const int64_t *, int64_t, int64_t, void *) {
    if (me())
      getWarpCalls().synchronize(0);
  };
  auto works = [](const int64_t *, int64_t, int64_t, void *scratch) {
    get(scratch).seen[me()] = getWarpCalls().shuffle(me(), 3, 0);
  };
  Memory memory;
  ASSERT_FALSE(run(fails, memory));
  ASSERT_TRUE(run(works, memory));
  EXPECT_EQ(memory.seen[17], 3);
}
