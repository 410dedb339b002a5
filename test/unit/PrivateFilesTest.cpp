//===- PrivateFilesTest.cpp - The cache folder and its files --------------===//
//
// Folders of the cache must be closed to other users, and files that others
// could have put there must not be read.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/PrivateFiles.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <sys/stat.h>
#include <unistd.h>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;

namespace {
/// A folder of the test's own.
class PrivateFilesTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(fs::createUniqueDirectory("sextant-private", path));
    folder = path.str().str();
  }
  void TearDown() override { (void)fs::remove_directories(folder); }

  unsigned getMode(const std::string &path) {
    struct stat status;
    return ::stat(path.c_str(), &status) ? 0 : status.st_mode & 0777;
  }

  std::string folder;
};
} // namespace

TEST_F(PrivateFilesTest, FoldersAreClosed) {
  std::string made = folder + "/deep/er";
  EXPECT_TRUE(makePrivateFolder(made));
  EXPECT_EQ(getMode(made), 0700u);
  ASSERT_EQ(::chmod(made.c_str(), 0777), 0);
  EXPECT_TRUE(makePrivateFolder(made));
  EXPECT_EQ(getMode(made), 0700u);
  EXPECT_TRUE(writePrivateFile(made, "one", "text"));
  EXPECT_EQ(getMode(made + "/one"), 0600u);
}

TEST_F(PrivateFilesTest, WhatIsNoFolderOfOursIsNotUsed) {
  EXPECT_FALSE(makePrivateFolder(""));
  EXPECT_FALSE(makePrivateFolder("/proc/no/such/folder"));
  ASSERT_TRUE(writePrivateFile(folder, "file", "text"));
  EXPECT_FALSE(makePrivateFolder(folder + "/file"));
  EXPECT_FALSE(writePrivateFile(folder + "/file", "one", "text"));
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder to somebody else";
  ASSERT_EQ(::chown(folder.c_str(), 1, 1), 0);
  EXPECT_FALSE(makePrivateFolder(folder));
  EXPECT_EQ(readPrivateFile(folder + "/file", 100), "text");
  ASSERT_EQ(::chown((folder + "/file").c_str(), 1, 1), 0);
  EXPECT_EQ(readPrivateFile(folder + "/file", 100), std::nullopt);
}

TEST_F(PrivateFilesTest, OnlyRegularFilesAreRead) {
  ASSERT_TRUE(writePrivateFile(folder, "file", "text"));
  EXPECT_EQ(readPrivateFile(folder + "/file", 4), "text");
  EXPECT_EQ(readPrivateFile(folder + "/file", 3), std::nullopt);
  EXPECT_EQ(readPrivateFile(folder + "/none", 100), std::nullopt);
  EXPECT_EQ(readPrivateFile(folder, 100), std::nullopt);
  EXPECT_EQ(readPrivateFile("/dev/zero", 100), std::nullopt);
  std::string pipe = folder + "/pipe", link = folder + "/link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(readPrivateFile(pipe, 100), std::nullopt); // and does not wait
  ASSERT_EQ(::symlink("file", link.c_str()), 0);
  EXPECT_EQ(readPrivateFile(link, 100), std::nullopt);
}

TEST_F(PrivateFilesTest, AFailedWriteLeavesNothing) {
  ASSERT_TRUE(writePrivateFile(folder, "file", "text"));
  // A folder in its place cannot be replaced.
  ASSERT_EQ(::mkdir((folder + "/taken").c_str(), 0700), 0);
  EXPECT_FALSE(writePrivateFile(folder, "taken", "text"));
  std::error_code error;
  unsigned count = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    ++count;
  EXPECT_EQ(count, 2u);
}
