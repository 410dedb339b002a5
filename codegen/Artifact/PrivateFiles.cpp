//===- PrivateFiles.cpp - The cache folder and its files ------------------===//

#include "codegen/Artifact/PrivateFiles.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace {
/// Closes a descriptor.
struct Descriptor {
  int number;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      (void)::close(number);
  }
};
} // namespace

std::string sextant::codegen::getCacheFolder() {
  llvm::SmallString<128> folder;
  std::optional<std::string> base =
      llvm::sys::Process::GetEnv("XDG_CACHE_HOME");
  if (base && path::is_absolute(*base))
    folder = *base;
  else if (path::home_directory(folder))
    path::append(folder, ".cache");
  else
    return "";
  path::append(folder, "sextant");
  return folder.str().str();
}

bool sextant::codegen::makePrivateFolder(const std::string &folder) {
  if (folder.empty() || fs::create_directories(path::parent_path(folder)))
    return false;
  if (::mkdir(folder.c_str(), 0700) && errno != EEXIST)
    return false;
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status;
  if (opened.number < 0 || ::fstat(opened.number, &status) ||
      status.st_uid != ::geteuid())
    return false;
  return (status.st_mode & 0777) == 0700 || !::fchmod(opened.number, 0700);
}

std::optional<std::string>
sextant::codegen::readPrivateFile(const std::string &file, uint64_t limit) {
  // Opening a pipe would wait for its writer without O_NONBLOCK.
  Descriptor opened(
      ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (opened.number < 0 || ::fstat(opened.number, &status) ||
      !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      static_cast<uint64_t>(status.st_size) > limit)
    return std::nullopt;
  // Read, not mapped: a mapping of a file that shrinks ends in SIGBUS.
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count =
        ::read(opened.number, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    done += static_cast<size_t>(count);
  }
  return bytes;
}

bool sextant::codegen::writePrivateFile(const std::string &folder,
                                        llvm::StringRef name,
                                        llvm::StringRef bytes) {
  if (!makePrivateFolder(folder))
    return false;
  std::string file = folder + "/" + name.str();
  int handle;
  llvm::SmallString<128> temporary;
  if (fs::createUniqueFile(file + "-%%%%%%.tmp", handle, temporary, fs::OF_None,
                           fs::owner_read | fs::owner_write))
    return false;
  llvm::raw_fd_ostream stream(handle, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  bool failed = stream.has_error();
  stream.clear_error();
  if (!failed && !fs::rename(temporary, file))
    return true;
  (void)fs::remove(temporary);
  return false;
}
