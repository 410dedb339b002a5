//===- ScratchTest.cpp - Memory that kernels work in ----------------------===//
//
// Which buffers are whole huge pages, and what is kept from launch to launch.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/Scratch.h"
#include "runtime/HugePages.h"
#include "gtest/gtest.h"
#include <malloc.h>

using namespace sextant::runtime;

/// Where the memory lies in a page of so many bytes.
static int64_t getPlace(const void *memory, int64_t page) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory)) % page;
}

TEST(Scratch, LargeBuffersAreHugePages) {
  for (int64_t bytes : {int64_t(128) << 10, int64_t(700000), hugePage + 1}) {
    Scratch scratch;
    ASSERT_TRUE(scratch.reserve(2, bytes));
    for (int64_t worker : {0, 1}) {
      void *memory = scratch.get(worker);
      EXPECT_EQ(getPlace(memory, hugePage), 0) << bytes;
      // All of the last page is the buffer's, so that it may be a huge one.
      int64_t whole = (bytes + hugePage - 1) / hugePage * hugePage;
      EXPECT_GE(malloc_usable_size(memory), static_cast<size_t>(whole))
          << bytes;
    }
  }
}

TEST(Scratch, SmallBuffersAreWholeLines) {
  Scratch scratch;
  ASSERT_TRUE(scratch.reserve(3, 100));
  for (int64_t worker : {0, 1, 2})
    EXPECT_EQ(getPlace(scratch.get(worker), 64), 0);
}

TEST(Scratch, ABufferThatIsLargeEnoughStays) {
  Scratch scratch;
  ASSERT_TRUE(scratch.reserve(1, 300000));
  void *first = scratch.get(0);
  ASSERT_TRUE(scratch.reserve(2, 200000));
  EXPECT_EQ(scratch.get(0), first);
}

TEST(Scratch, BytesThatNoMemoryHasAreAnError) {
  Scratch scratch;
  EXPECT_FALSE(scratch.reserve(1, INT64_MAX));
  EXPECT_FALSE(scratch.reserve(1, INT64_MAX / 2));
}
