//===- SharedObject.cpp - Compiled code, loaded from memory ---------------===//
//
// memfd_create gives the code a file without a file system. The descriptor
// stays open as long as the code is loaded: the loader recognises what is
// loaded by its path, and a descriptor's number must not be used again.
//
//===----------------------------------------------------------------------===//

#include "runtime/SharedObject.h"
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace sextant::runtime;

static Status writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return makeError("write: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<SharedObject> SharedObject::load(std::span<const uint8_t> code) {
  int file = ::memfd_create("sextant-kernels", MFD_CLOEXEC);
  if (file < 0)
    return makeError("memfd_create: ", std::strerror(errno));
  if (Status status = writeAll(file, code); !status) {
    ::close(file);
    return status.error();
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = ::dlerror();
    ::close(file);
    return makeError("dlopen of the artifact's kernels: ",
                     reason ? reason : "no reason given");
  }
  return SharedObject(handle, file);
}

SharedObject::SharedObject(SharedObject &&other) noexcept
    : handle(std::exchange(other.handle, nullptr)),
      file(std::exchange(other.file, -1)) {}

SharedObject::~SharedObject() {
  if (handle)
    ::dlclose(handle);
  if (file >= 0)
    ::close(file);
}

Result<void *> SharedObject::find(const std::string &symbol) const {
  void *address = ::dlsym(handle, symbol.c_str());
  if (!address)
    return makeError("dlsym: the artifact's kernels have no symbol '", symbol,
                     "'");
  return address;
}
