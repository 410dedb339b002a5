//===- InputFile.cpp - Files that a user names ----------------------------===//
//
// Files are read and not mapped: a mapped file that shrinks meanwhile would end
// the process by a signal.
//
//===----------------------------------------------------------------------===//

#include "tools/support/InputFile.h"
#include "runtime/ArtifactFormat.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sextant;
using runtime::makeError;
using runtime::Result;

/// Up to `size` bytes, or all there are without one; reading, unlike a mapping,
/// survives a file that is cut meanwhile.
static bool readAll(int file, std::string &bytes, std::optional<size_t> size) {
  constexpr size_t piece = 1 << 16;
  for (size_t done = 0;;) {
    bytes.resize(size ? *size : done + piece);
    ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    done += static_cast<size_t>(count);
    if (count == 0 || done == size) {
      bytes.resize(done);
      return true;
    }
  }
}

Result<std::string> tools::readInputFile(const std::string &path) {
  std::string bytes;
  if (path == "-") {
    if (!readAll(STDIN_FILENO, bytes, std::nullopt))
      return makeError("the standard input: ", std::strerror(errno));
    return bytes;
  }
  // Opening a pipe would wait for its writer without O_NONBLOCK.
  int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return makeError(path, ": ", std::strerror(errno));
  struct stat status;
  if (::fstat(file, &status) || S_ISDIR(status.st_mode) ||
      !S_ISREG(status.st_mode)) {
    ::close(file);
    return makeError(path, " is ",
                     S_ISDIR(status.st_mode) ? "a folder"
                                             : "a pipe or a device",
                     ": give a file, or - to read the standard input");
  }
  auto size = static_cast<size_t>(status.st_size);
  bool good = readAll(file, bytes, size);
  int code = errno;
  ::close(file);
  if (!good)
    return makeError(path, ": ", std::strerror(code));
  if (bytes.size() != size)
    return makeError(path, " became shorter while it was read: ", bytes.size(),
                     " bytes of ", size);
  return bytes;
}

bool tools::isArtifact(const std::string &bytes) {
  return runtime::hasArtifactIdentifier(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
}
