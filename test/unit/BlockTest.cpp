//===- BlockTest.cpp - Threads of an emulated block -----------------------===//
//
// Functions of threads as compiled kernels are: they see their block by the
// calls that the emulator gives them. What a GPU leaves undefined is seeded
// here as a fault and must be found.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/Block.h"
#include "runtime/emulator/Emulator.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <set>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

namespace {
/// What threads of a test write to: one element each.
struct Memory {
  std::array<int32_t, 4 * warpThreads> shared, seen;
  std::vector<int32_t> order;
};

/// Sets a variable of the environment while it lives.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name(name) {
    ::setenv(name, value.c_str(), 1);
  }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;
  ~Environment() { ::unsetenv(name); }

private:
  const char *name;
};
} // namespace

/// Runs a function in a block, which shares 512 bytes; `begin` is its only
/// item.
static Status run(ThreadFunction function, Memory &memory, int64_t begin = 0,
                  int32_t warps = 1) {
  static const char *const sources[] = {"model.mlir:1:1", "model.mlir:2:1"};
  ThreadCode code = {"kernel", function, sources, 2, warps, 512};
  getWarpCalls().run(&code, nullptr, begin, begin + 1, &memory, sizeof(memory));
  return takeFailure();
}

/// Runs it with several orders of threads; each time it must fail with a
/// message that has all of these texts.
static void expectFailure(ThreadFunction function, int32_t warps,
                          std::initializer_list<const char *> texts) {
  for (uint64_t seed = 0; seed != 8; ++seed) {
    Environment schedule("SEXTANT_SCHEDULE", std::to_string(seed));
    Memory memory;
    Status status = run(function, memory, 0, warps);
    ASSERT_FALSE(status);
    std::string message = status.error().message();
    for (const char *text : texts)
      EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

static Memory &get(void *scratch) { return *static_cast<Memory *>(scratch); }

static int32_t me() { return getWarpCalls().getThread(); }

TEST(Block, ShufflesAndBallots) {
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

TEST(Block, StoresAreSeenBehindABarrier) {
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

TEST(Block, AMissingBarrierShows) {
  auto function = [](const int64_t *, int64_t begin, int64_t, void *scratch) {
    Memory &memory = get(scratch);
    int32_t thread = me();
    memory.shared[thread] = begin + thread;
    memory.seen[thread] = memory.shared[warpThreads - 1 - thread];
    getWarpCalls().synchronize(0);
  };
  Memory memory;
  memory.shared.fill(-1);
  memory.seen.fill(0); // of one warp, a quarter is written
  ASSERT_TRUE(run(function, memory));
  int stale = 0;
  for (int32_t seen : memory.seen)
    stale += seen == -1;
  EXPECT_EQ(stale, warpThreads / 2); // of each pair, the one that comes first
}

TEST(Block, OrdersAreDrawnBySeed) {
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    for (int32_t place = 0; place != 4; ++place) {
      get(scratch).order.push_back(me());
      getWarpCalls().synchronize(place);
    }
  };
  auto getOrder = [&](uint64_t seed) {
    Environment schedule("SEXTANT_SCHEDULE", std::to_string(seed));
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
}

TEST(Block, ThreadsThatMeetAtDifferentInstructionsAreAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    if (me() < 5)
      (void)getWarpCalls().shuffle(1, 0, 7);
    else
      getWarpCalls().synchronize(1);
  };
  expectFailure(function, 1,
                {"kernel 'kernel': threads of a warp meet at different "
                 "instructions: thread ",
                 "a shuffle (number 7)",
                 "a barrier (number 1 at model.mlir:2:1)"});
}

TEST(Block, OneInstructionInTwoPlacesIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    getWarpCalls().synchronize(me() == 31 ? 1 : 0);
  };
  Memory memory;
  EXPECT_FALSE(run(function, memory));
}

TEST(Block, AThreadThatEndsBeforeOthersMeetIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    if (me() != 9)
      (void)getWarpCalls().ballot(1, 0);
  };
  expectFailure(function, 1, {"ended"});
}

TEST(Block, AWarpRunsAgainAfterAFailure) {
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

//===----------------------------------------------------------------------===//
// Several warps
//===----------------------------------------------------------------------===//

static int32_t *getShared() {
  return static_cast<int32_t *>(getWarpCalls().getShared());
}

/// What one warp stores to shared memory the others load, behind a barrier.
template <bool hasBarrier>
static void shareFromFirst(const int64_t *, int64_t, int64_t, void *scratch) {
  const WarpCalls &block = getWarpCalls();
  int32_t thread = me(), lane = thread % warpThreads;
  if (thread < warpThreads) {
    block.access(getShared() + lane, 4, 4, AccessKind::Store, 0);
    getShared()[lane] = 100 + lane;
  }
  if (hasBarrier)
    block.synchronizeBlock(1, 3 * warpThreads, 5);
  block.access(getShared() + lane, 4, 4, AccessKind::Load, 1);
  get(scratch).seen[thread] = getShared()[lane];
}

TEST(Block, ABarrierOrdersWarps) {
  Environment checks("SEXTANT_CHECK", "races,memory");
  for (uint64_t seed = 0; seed != 16; ++seed) {
    Environment schedule("SEXTANT_SCHEDULE", std::to_string(seed));
    Memory memory;
    Status status = run(shareFromFirst<true>, memory, 0, 3);
    ASSERT_TRUE(status) << status.error().message();
    for (int i = 0; i != 3 * warpThreads; ++i)
      ASSERT_EQ(memory.seen[i], 100 + i % warpThreads);
  }
}

TEST(Block, ABarrierThatIsLeftOutIsARace) {
  Environment checks("SEXTANT_CHECK", "races");
  expectFailure(shareFromFirst<false>, 3,
                {"kernel 'kernel': threads of a block access the same memory "
                 "without a barrier between them",
                 "(access 0 at model.mlir:1:1)",
                 "(access 1 at model.mlir:2:1)"});
}

TEST(Block, SharedMemoryIsLoadedOnlyBehindAStore) {
  Environment checks("SEXTANT_CHECK", "memory");
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t *shared = getShared();
    if (me() != 7)
      getWarpCalls().access(shared + me(), 4, 4, AccessKind::Store, 0);
    getWarpCalls().synchronize(1);
    getWarpCalls().access(shared + (me() + 1) % warpThreads, 4, 4,
                          AccessKind::Load, 1);
  };
  expectFailure(function, 1,
                {"thread 6 loads 4 bytes of shared memory that nobody has "
                 "written (access 1 at model.mlir:2:1)"});
}

TEST(Block, AnAddressIsAMultipleOfWhatItsInstructionAsksFor) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    auto *bytes = static_cast<char *>(getWarpCalls().getShared());
    getWarpCalls().access(bytes + 4, 8, 4, AccessKind::Store, 0);
    getWarpCalls().access(bytes + 6, 8, 4, AccessKind::Store, 1);
  };
  expectFailure(function, 1,
                {"kernel 'kernel': thread ",
                 " stores 8 bytes at an address that is no multiple of 4 "
                 "(access 1 at model.mlir:2:1)"});
}

TEST(Block, ScratchMemoryIsLoadedOnlyBehindAStore) {
  Environment checks("SEXTANT_CHECK", "memory");
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    getWarpCalls().access(&get(scratch).seen[me()], 4, 4, AccessKind::Load, 0);
  };
  expectFailure(function, 1, {"of scratch memory that nobody has written"});
}

/// A producer and a consumer take turns over two named barriers, one for each
/// direction, without waiting for each other longer than they have to.
static void passAlong(const int64_t *, int64_t, int64_t, void *scratch) {
  const WarpCalls &block = getWarpCalls();
  constexpr int32_t full = 2, free = 3, both = 2 * warpThreads;
  int32_t lane = me() % warpThreads;
  bool produces = me() < warpThreads;
  if (!produces)
    block.arrive(free, both, 10);
  for (int32_t step = 0; step != 5; ++step) {
    if (produces) {
      block.synchronizeBlock(free, both, 11);
      block.access(getShared() + lane, 4, 4, AccessKind::Store, 0);
      getShared()[lane] = step * 1000 + lane;
      block.arrive(full, both, 12);
    } else {
      block.synchronizeBlock(full, both, 13);
      block.access(getShared() + lane, 4, 4, AccessKind::Load, 1);
      EXPECT_EQ(getShared()[lane], step * 1000 + lane);
      get(scratch).seen[lane] = getShared()[lane];
      if (step != 4)
        block.arrive(free, both, 14);
    }
  }
}

TEST(Block, NamedBarriersOrderWhatArrivesBefore) {
  Environment checks("SEXTANT_CHECK", "races,memory");
  for (uint64_t seed = 0; seed != 16; ++seed) {
    Environment schedule("SEXTANT_SCHEDULE", std::to_string(seed));
    Memory memory;
    Status status = run(passAlong, memory, 0, 2);
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(memory.seen[9], 4009);
  }
}

TEST(Block, AProducerThatDoesNotWaitForRoomIsARace) {
  Environment checks("SEXTANT_CHECK", "races");
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &block = getWarpCalls();
    int32_t lane = me() % warpThreads;
    for (int32_t step = 0; step != 2; ++step) {
      if (me() < warpThreads) {
        block.access(getShared() + lane, 4, 4, AccessKind::Store, 0);
        block.arrive(step, 2 * warpThreads, 12);
      } else {
        block.synchronizeBlock(step, 2 * warpThreads, 13);
        block.access(getShared() + lane, 4, 4, AccessKind::Load, 1);
      }
    }
  };
  expectFailure(function, 2, {"threads of a block access the same memory"});
}

TEST(Block, ABarrierThatOthersNeverComeToIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    if (me() >= warpThreads)
      getWarpCalls().synchronizeBlock(4, 3 * warpThreads, 1);
  };
  expectFailure(function, 3,
                {"no thread of the block can run: warp 0 has ended, warp 1 "
                 "waits at a barrier of the block (number 1 at model.mlir:2:1)"
                 " for barrier 4, where 64 of 96 threads have come"});
}

TEST(Block, WarpsThatExpectOthersAtABarrierAreAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t threads = me() < warpThreads ? 2 * warpThreads : 3 * warpThreads;
    getWarpCalls().synchronizeBlock(0, threads, 1);
  };
  expectFailure(function, 3, {"others that have come expect"});
}

TEST(Block, BarriersAreOfWholeWarps) {
  auto few = [](const int64_t *, int64_t, int64_t, void *) {
    getWarpCalls().synchronizeBlock(0, 48, 1);
  };
  expectFailure(few, 2, {"expects 48 threads, which are not whole warps"});
  auto beyond = [](const int64_t *, int64_t, int64_t, void *) {
    getWarpCalls().arrive(16, warpThreads, 1);
  };
  expectFailure(beyond, 1, {"barrier 16 at", "a block has 16"});
}

TEST(Block, AnyWarpMayBeTheLast) {
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    for (int32_t place = 0; place != 4; ++place)
      getWarpCalls().synchronize(place);
    get(scratch).order.push_back(me() / warpThreads);
  };
  std::set<int32_t> last;
  for (uint64_t seed = 0; seed != 32; ++seed) {
    Environment schedule("SEXTANT_SCHEDULE", std::to_string(seed));
    Memory memory;
    ASSERT_TRUE(run(function, memory, 0, 4));
    last.insert(memory.order.back());
  }
  EXPECT_EQ(last.size(), 4u);
}
