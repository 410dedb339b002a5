//===- RaceCheckTest.cpp - Accesses that no barrier orders ----------------===//

#include "runtime/emulator/RaceCheck.h"
#include "runtime/emulator/Warp.h"
#include "gtest/gtest.h"
#include <array>
#include <cstdlib>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

static const auto *at(uintptr_t address) {
  return reinterpret_cast<const void *>(address);
}

/// Both orders: what the emulator happened to run first does not matter.
static void expectRace(bool firstStores, bool secondStores, bool isRace) {
  RaceCheck check;
  EXPECT_EQ(check.note(at(4094), 4, firstStores, 3, 1), "");
  EXPECT_EQ(check.note(at(4097), 4, secondStores, 5, 2).empty(), !isRace);
  check.passBarrier();
  EXPECT_EQ(check.note(at(4097), 4, secondStores, 5, 2), "");
}

TEST(RaceCheck, OneOfTwoThreadsStores) {
  expectRace(true, true, true);
  expectRace(true, false, true);
  expectRace(false, true, true);
  expectRace(false, false, false);
}

TEST(RaceCheck, AThreadMayDoAsItLikesAlone) {
  RaceCheck check;
  for (bool isStore : {true, false, true})
    EXPECT_EQ(check.note(at(64), 8, isStore, 7, 0), "");
  EXPECT_EQ(check.note(at(72), 8, true, 8, 0), "");
}

TEST(RaceCheck, AStoreMayConflictWithTheSecondThatLoaded) {
  RaceCheck check;
  EXPECT_EQ(check.note(at(0), 4, false, 1, 0), "");
  EXPECT_EQ(check.note(at(0), 4, false, 2, 0), "");
  EXPECT_EQ(check.note(at(0), 4, false, 1, 0), "");
  EXPECT_NE(check.note(at(0), 4, true, 1, 0), "");
}

TEST(RaceCheck, FindsAMissingBarrierInWhicheverOrder) {
  auto function = [](const int64_t *, int64_t, int64_t, void *scratch) {
    const WarpCalls &warp = getWarpCalls();
    auto *memory = static_cast<int32_t *>(scratch);
    int32_t thread = warp.getThread();
    warp.access(memory + thread, 4, 1, 11);
    memory[thread] = thread;
    (void)warp.ballot(1, 0); // orders nothing in memory
    warp.access(memory + (thread + 1) % warpThreads, 4, 0, 12);
    warp.synchronize(1);
  };
  std::array<int32_t, warpThreads> memory = {};
  ::setenv("SEXTANT_CHECK", "races", 1);
  for (uint64_t seed = 0; seed != 8; ++seed) {
    setSeed(seed);
    getWarpCalls().run("kernel", function, nullptr, 0, 1, memory.data());
    Status status = takeFailure();
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message().find("stored (access 11), thread"),
              std::string::npos)
        << status.error().message();
  }
  ::unsetenv("SEXTANT_CHECK");
  getWarpCalls().run("kernel", function, nullptr, 0, 1, memory.data());
  EXPECT_TRUE(takeFailure());
  setSeed(1);
}
