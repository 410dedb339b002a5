//===- RaceCheckTest.cpp - Accesses that nothing orders -------------------===//

#include "runtime/emulator/RaceCheck.h"
#include "gtest/gtest.h"

using namespace sextant::runtime::emulator;

namespace {
/// Two warps; of their threads the tests name a few, 40 of the second.
class Threads {
public:
  Threads() { check.begin(2); }

  /// Whether an access of 4 bytes is free of races.
  bool access(uintptr_t address, AccessKind kind, int32_t thread) {
    Access given = {reinterpret_cast<const void *>(address), 4, kind, 0};
    return !check.note(given, thread);
  }
  bool load(int32_t thread) { return access(64, AccessKind::Load, thread); }
  bool store(int32_t thread) { return access(64, AccessKind::Store, thread); }
  bool change(int32_t thread) {
    return access(64, AccessKind::AtomicChange, thread);
  }

  RaceCheck check;
};
} // namespace

/// Both orders: what the emulator happened to run first does not matter.
static void expectRace(AccessKind first, AccessKind second, bool isRace) {
  Threads threads;
  EXPECT_TRUE(threads.access(4094, first, 3));
  EXPECT_EQ(threads.access(4097, second, 5), !isRace);
  threads.check.passBarrier(0);
  EXPECT_TRUE(threads.access(4097, second, 5));
}

TEST(RaceCheck, OneOfTwoThreadsStores) {
  expectRace(AccessKind::Store, AccessKind::Store, true);
  expectRace(AccessKind::Store, AccessKind::Load, true);
  expectRace(AccessKind::Load, AccessKind::Store, true);
  expectRace(AccessKind::Load, AccessKind::Load, false);
}

TEST(RaceCheck, AnAtomicChangeConflictsWithAllButAnother) {
  expectRace(AccessKind::AtomicChange, AccessKind::AtomicChange, false);
  for (AccessKind plain : {AccessKind::Load, AccessKind::Store}) {
    expectRace(AccessKind::AtomicChange, plain, true);
    expectRace(plain, AccessKind::AtomicChange, true);
  }
}

TEST(RaceCheck, AtomicChangesOfSeveralWarpsAreAllKept) {
  Threads threads;
  EXPECT_TRUE(threads.change(3));
  EXPECT_TRUE(threads.change(4));
  EXPECT_TRUE(threads.change(40));
  threads.check.passBarrier(0);
  // Those of the other warp are not ordered, and the race names one of them.
  Access store = {reinterpret_cast<const void *>(64), 4, AccessKind::Store, 0};
  std::optional<Race> race = threads.check.note(store, 3);
  ASSERT_TRUE(race);
  EXPECT_EQ(race->thread, 40);
  EXPECT_EQ(race->kind, AccessKind::AtomicChange);
  EXPECT_TRUE(threads.change(5));
}

TEST(RaceCheck, LoadsBehindAtomicChangesAreKeptBesideThem) {
  Threads threads;
  EXPECT_TRUE(threads.change(3));
  threads.check.passBarrier(0);
  EXPECT_TRUE(threads.load(4));
  EXPECT_FALSE(threads.change(5)); // that of thread 4
  EXPECT_TRUE(threads.change(4));
  EXPECT_FALSE(threads.load(6)); // the change of thread 4
}

TEST(RaceCheck, AThreadMayDoAsItLikesAlone) {
  Threads threads;
  for (AccessKind kind : {AccessKind::Store, AccessKind::Load,
                          AccessKind::AtomicChange, AccessKind::Store})
    EXPECT_TRUE(threads.access(64, kind, 7));
  EXPECT_TRUE(threads.access(68, AccessKind::Store, 8));
}

TEST(RaceCheck, AStoreMayConflictWithTheSecondThatLoaded) {
  Threads threads;
  EXPECT_TRUE(threads.load(1));
  EXPECT_TRUE(threads.load(2));
  EXPECT_TRUE(threads.load(1));
  EXPECT_FALSE(threads.store(1));
}

TEST(RaceCheck, WhatAWarpReleasedComesBeforeWhoeverAcquiresIt) {
  Threads threads;
  RaceCheck::Clock clock;
  EXPECT_TRUE(threads.store(3));
  threads.check.release(0, clock);
  EXPECT_FALSE(threads.load(40));
  threads.check.acquire(1, clock);
  EXPECT_TRUE(threads.load(40));
  EXPECT_FALSE(threads.store(3)); // the other way nothing was released
}

TEST(RaceCheck, WhatAWarpDoesBehindAReleaseIsNotPartOfIt) {
  Threads threads;
  RaceCheck::Clock clock;
  threads.check.release(0, clock);
  EXPECT_TRUE(threads.store(3));
  threads.check.acquire(1, clock);
  EXPECT_FALSE(threads.load(40));
}

TEST(RaceCheck, AReleaseDoesNotOrderThreadsOfTheWarp) {
  Threads threads;
  RaceCheck::Clock clock;
  EXPECT_TRUE(threads.store(3));
  threads.check.release(0, clock);
  EXPECT_FALSE(threads.load(4));
}

TEST(RaceCheck, LoadsOfSeveralWarpsAreAllKept) {
  Threads threads;
  EXPECT_TRUE(threads.load(3));
  EXPECT_TRUE(threads.load(40));
  threads.check.passBarrier(0);
  EXPECT_FALSE(threads.store(5)); // that of the other warp is not ordered
  threads.check.begin(2);
  EXPECT_TRUE(threads.store(5));
}

TEST(RaceCheck, BytesOfAWordAreThoseOfDifferentThreads) {
  RaceCheck check;
  check.begin(1);
  alignas(4) char memory[8] = {};
  auto store = [&](int32_t at, int32_t bytes, int32_t thread) {
    return check.note({memory + at, bytes, AccessKind::Store, thread}, thread);
  };
  EXPECT_FALSE(store(0, 1, 0));
  EXPECT_FALSE(store(1, 1, 1));
  EXPECT_FALSE(store(2, 2, 2));
  // A whole word, of which others stored some bytes: the first one is told.
  std::optional<Race> race = store(0, 8, 3);
  ASSERT_TRUE(race);
  EXPECT_EQ(race->thread, 0);
  check.passBarrier(0);
  EXPECT_FALSE(store(0, 8, 3));
  // A byte of a word that another thread stored whole.
  race = store(6, 1, 4);
  ASSERT_TRUE(race);
  EXPECT_EQ(race->thread, 3);
  // Not aligned: the end of one word and the beginning of the next.
  check.passBarrier(0);
  EXPECT_FALSE(store(3, 2, 5));
  EXPECT_FALSE(store(0, 3, 6));
  EXPECT_TRUE(store(4, 4, 6));
}

TEST(RaceCheck, BytesOfAWordKeepWhatWasKnownOfIt) {
  Threads threads;
  EXPECT_TRUE(threads.load(3));
  EXPECT_TRUE(threads.load(40));
  // Bytes are told apart from here on, in the whole page.
  Access byte = {reinterpret_cast<const void *>(100), 1, AccessKind::Store, 0};
  EXPECT_FALSE(threads.check.note(byte, 5));
  threads.check.passBarrier(0);
  for (uintptr_t address = 64; address != 68; ++address) {
    Access store = {reinterpret_cast<const void *>(address), 1,
                    AccessKind::Store, 0};
    std::optional<Race> race = threads.check.note(store, 5);
    ASSERT_TRUE(race);
    EXPECT_EQ(race->thread, 40);
  }
  threads.check.passBarrier(1);
  RaceCheck::Clock clock;
  threads.check.release(1, clock);
  threads.check.acquire(0, clock);
  // A store to one of them says nothing of the others.
  Access first = {reinterpret_cast<const void *>(64), 1, AccessKind::Store, 0};
  EXPECT_FALSE(threads.check.note(first, 5));
  EXPECT_FALSE(threads.check.note({first.address, 1, AccessKind::Load, 0}, 5));
  Access second = {reinterpret_cast<const void *>(65), 1, AccessKind::Load, 0};
  EXPECT_FALSE(threads.check.note(second, 6));
}
