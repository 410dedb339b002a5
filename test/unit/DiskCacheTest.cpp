//===- DiskCacheTest.cpp - The cache of artifacts -------------------------===//
//
// The cache must give back what was stored, drop what is oldest, and take a
// damaged file for no entry.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/DiskCache.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;

namespace {
/// A cache in a folder of the test's own.
class DiskCacheTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(fs::createUniqueDirectory("sextant-cache", path));
    folder = path.str().str();
  }
  void TearDown() override { (void)fs::remove_directories(folder); }

  std::string folder;
};
} // namespace

static std::string makeBytes(size_t bytes, char content) {
  return std::string(bytes, content);
}

TEST_F(DiskCacheTest, KeepsWhatIsStored) {
  DiskCache cache(folder + "/deep/er");
  EXPECT_EQ(cache.find("a"), std::nullopt);
  std::string file = makeBytes(100, 'x');
  cache.store("a", file);
  EXPECT_EQ(cache.find("a"), file);
  EXPECT_EQ(cache.find("b"), std::nullopt);
}

TEST_F(DiskCacheTest, IgnoresDamagedFiles) {
  DiskCache cache(folder);
  cache.store("a", makeBytes(100, 'x'));
  ASSERT_NE(cache.find("a"), std::nullopt);
  std::string file = folder + "/a.entry";
  uint64_t size;
  ASSERT_FALSE(fs::file_size(file, size));
  // Every cut, and every changed byte.
  for (uint64_t at = 0; at < size; ++at) {
    cache.store("a", makeBytes(100, 'x'));
    std::fstream stream(file, std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(at)).put('?');
    stream.close();
    EXPECT_EQ(cache.find("a"), std::nullopt) << at;
    cache.store("a", makeBytes(100, 'x'));
    ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(at)), 0);
    EXPECT_EQ(cache.find("a"), std::nullopt) << at;
  }
}

TEST_F(DiskCacheTest, AnEntryIsBoundToItsKey) {
  DiskCache cache(folder);
  cache.store("aa", makeBytes(100, 'x'));
  ASSERT_FALSE(fs::rename(folder + "/aa.entry", folder + "/bb.entry"));
  EXPECT_EQ(cache.find("bb"), std::nullopt);
  ASSERT_FALSE(fs::rename(folder + "/bb.entry", folder + "/aa.entry"));
  EXPECT_EQ(cache.find("aa"), makeBytes(100, 'x'));
}

TEST_F(DiskCacheTest, DropsWhatWasNotUsedForLongest) {
  DiskCache cache(folder, 350); // three entries of 109 bytes
  for (const char *key : {"a", "b", "c"}) {
    cache.store(key, makeBytes(100, *key));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NE(cache.find("a"), std::nullopt); // now b is the oldest
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cache.store("d", makeBytes(100, 'd'));
  EXPECT_EQ(cache.find("b"), std::nullopt);
  for (const char *key : {"a", "c", "d"})
    EXPECT_NE(cache.find(key), std::nullopt) << key;
}

TEST_F(DiskCacheTest, WithoutFolderKeepsNothing) {
  for (const char *path : {"", "/proc/no/such/folder"}) {
    DiskCache cache(path);
    cache.store("a", makeBytes(10, 'x'));
    EXPECT_EQ(cache.find("a"), std::nullopt);
  }
}

TEST_F(DiskCacheTest, KeysTellPartsApart) {
  CacheKey one, other;
  one.add("ab");
  one.add("c");
  other.add("a");
  other.add("bc");
  EXPECT_NE(one.finish(), other.finish());
  EXPECT_EQ(one.finish().size(), 64u);
}

TEST_F(DiskCacheTest, KeysSeeEncodings) {
  auto getKey = [&] {
    CacheKey key;
    key.addFolder(folder);
    return key.finish();
  };
  auto write = [&](const char *name, const char *text) {
    std::error_code error;
    llvm::raw_fd_ostream(folder + "/" + name, error) << text;
  };
  std::string empty = getKey();
  write("notes.txt", "no encoding");
  EXPECT_EQ(getKey(), empty);
  write("mine.mlir", "one");
  std::string one = getKey();
  EXPECT_NE(one, empty);
  EXPECT_EQ(getKey(), one);
  write("mine.mlir", "another");
  EXPECT_NE(getKey(), one);
}
