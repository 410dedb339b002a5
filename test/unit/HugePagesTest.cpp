//===- HugePagesTest.cpp - Pages that a buffer asks for -------------------===//
//
// Only pages that lie in a buffer as a whole may be advised.
//
//===----------------------------------------------------------------------===//

#include "runtime/HugePages.h"
#include "gtest/gtest.h"
#include <sys/mman.h>

using namespace sextant::runtime;

TEST(HugePages, AreThoseThatLieInside) {
  constexpr int64_t bytes = 4 * hugePage;
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto begin = reinterpret_cast<uintptr_t>(memory);
  char *first = static_cast<char *>(memory) + (hugePage - begin % hugePage);
  EXPECT_EQ(adviseHugePages(first, hugePage), hugePage);
  EXPECT_EQ(adviseHugePages(first, hugePage - 1), 0);
  EXPECT_EQ(adviseHugePages(first - 64, hugePage), 0);
  EXPECT_EQ(adviseHugePages(first - 64, 2 * hugePage + 64), 2 * hugePage);
  EXPECT_EQ(adviseHugePages(first, 0), 0);
  // The memory is what it was.
  first[0] = 7;
  adviseHugePages(first, hugePage);
  EXPECT_EQ(first[0], 7);
  EXPECT_EQ(first[hugePage - 1], 0);
  ::munmap(memory, bytes);
}
