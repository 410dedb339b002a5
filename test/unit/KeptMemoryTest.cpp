//===- KeptMemoryTest.cpp - Large blocks for one run after another --------===//
//
// Which blocks serve again, and that what is kept has a bound.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/KeptMemory.h"
#include "runtime/HugePages.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace sextant::runtime;

TEST(KeptMemory, ABlockServesAgainWhereItsSizeFits) {
  KeptMemory memory;
  void *first = memory.take(8 * hugePage).get(); // and is idle at once
  EXPECT_EQ(memory.countIdle(), 8 * hugePage);
  {
    std::shared_ptr<void> same = memory.take(8 * hugePage - 100);
    EXPECT_EQ(same.get(), first);
    EXPECT_EQ(memory.countIdle(), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(same.get()) % hugePage, 0U);
    std::memset(same.get(), 7, 8 * hugePage);
  }
  // A seventh more than is asked for is taken, a third more is not.
  EXPECT_EQ(memory.take(7 * hugePage).get(), first);
  std::shared_ptr<void> small = memory.take(6 * hugePage);
  EXPECT_NE(small.get(), first);
}

TEST(KeptMemory, TheSmallestThatServesIsTaken) {
  KeptMemory memory;
  void *large, *middle;
  {
    std::shared_ptr<void> a = memory.take(10 * hugePage);
    std::shared_ptr<void> b = memory.take(9 * hugePage);
    large = a.get();
    middle = b.get();
  }
  std::shared_ptr<void> first = memory.take(9 * hugePage);
  std::shared_ptr<void> second = memory.take(9 * hugePage);
  EXPECT_EQ(first.get(), middle);
  EXPECT_EQ(second.get(), large);
}

TEST(KeptMemory, ThereIsNeverMoreThanWasOnceInUse) {
  KeptMemory memory;
  memory.take(8 * hugePage);
  // Another size: the idle block goes before this one comes.
  std::shared_ptr<void> one = memory.take(4 * hugePage);
  EXPECT_EQ(memory.countIdle(), 0);
  std::shared_ptr<void> two = memory.take(4 * hugePage);
  std::shared_ptr<void> three = memory.take(6 * hugePage);
  one.reset();
  two.reset();
  three.reset();
  EXPECT_EQ(memory.countIdle(), 14 * hugePage); // what was in use at once
  // The two that were given first make room for it.
  std::shared_ptr<void> four = memory.take(8 * hugePage);
  EXPECT_EQ(memory.countIdle(), 6 * hugePage);
}

TEST(KeptMemory, ALimitIsKept) {
  KeptMemory nothing(0);
  EXPECT_FALSE(nothing.keeps());
  nothing.take(3 * hugePage);
  EXPECT_EQ(nothing.countIdle(), 0);
  KeptMemory some(5 * hugePage);
  EXPECT_TRUE(some.keeps());
  std::shared_ptr<void> one = some.take(3 * hugePage);
  std::shared_ptr<void> two = some.take(4 * hugePage);
  one.reset();
  two.reset(); // the older of them goes
  EXPECT_EQ(some.countIdle(), 4 * hugePage);
}

TEST(KeptMemory, BytesThatNoMemoryHasAreNone) {
  KeptMemory memory;
  memory.take(hugePage);
  EXPECT_EQ(memory.take(INT64_MAX), nullptr);
  EXPECT_EQ(memory.take(INT64_MAX / 2), nullptr);
  EXPECT_EQ(memory.countIdle(), 0); // given back in the attempt
  EXPECT_NE(memory.take(hugePage), nullptr);
}

TEST(KeptMemory, AHostHasTemporariesOfAnySize) {
  ::setenv("SEXTANT_CHECK", "scratch", 1);
  const Device &host = getHostDevice();
  for (int64_t count : {int64_t(0), int64_t(3), hugePage / 4, hugePage}) {
    Result<Tensor> made =
        host.allocateTemporary(host.state, DType::F32, {{2, count}});
    ASSERT_TRUE(static_cast<bool>(made)) << made.error().message();
    EXPECT_EQ(made->shape().size(), 2U);
    EXPECT_EQ(made->elements(), 2 * count);
    // What nobody has written is NaN under that check.
    auto *values = static_cast<const float *>(made->data);
    for (int64_t i = 0; i < 2 * count; i += 1 + count / 5)
      EXPECT_TRUE(std::isnan(values[i]));
  }
  ::unsetenv("SEXTANT_CHECK");
  Result<Tensor> wide =
      host.allocateTemporary(host.state, DType::F32, {{INT64_MAX / 8}});
  ASSERT_FALSE(static_cast<bool>(wide));
  EXPECT_NE(wide.error().message().find("no memory for a tensor"),
            std::string::npos);
}

TEST(KeptMemory, ThreadsHaveBlocksOfTheirOwn) {
  KeptMemory memory;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&memory, &wrong, number] {
      for (int round = 0; round < 50; ++round) {
        std::shared_ptr<void> block = memory.take(hugePage);
        auto *bytes = static_cast<volatile char *>(block.get());
        for (int64_t at = 0; at < hugePage; at += 4096)
          bytes[at] = static_cast<char>(number);
        for (int64_t at = 0; at < hugePage; at += 4096)
          wrong[static_cast<size_t>(number)] += bytes[at] != number;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_LE(memory.countIdle(), 4 * hugePage);
}
