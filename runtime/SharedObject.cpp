//===- SharedObject.cpp - Compiled code, loaded from memory ---------------===//
//
// memfd_create gives the code a file without a file system. It is closed once
// the code is mapped, so that loaded programs hold no descriptors.
//
//===----------------------------------------------------------------------===//

#include "runtime/SharedObject.h"
#include "runtime/ElfCheck.h"
#include <atomic>
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

/// A path of the descriptor that was never used before. The loader takes what
/// has a known path for loaded, and the numbers of closed descriptors come
/// again; so each load spells the path in its own way: a hexadecimal digit d of
/// its number is d + 1 slashes and a dot.
static std::string spellPath(int file) {
  static std::atomic<uint64_t> loads = 0;
  std::string path = "/proc/self/fd";
  for (uint64_t number = loads.fetch_add(1) + 1; number; number /= 16) {
    path.append(number % 16 + 1, '/');
    path += '.';
  }
  return path + "/" + std::to_string(file);
}

Result<SharedObject> SharedObject::load(std::span<const uint8_t> code) {
  if (Status status = checkElf(code); !status)
    return status.error();
  int file = ::memfd_create("sextant-kernels", MFD_CLOEXEC);
  if (file < 0)
    return makeError("memfd_create: ", std::strerror(errno));
  if (Status status = writeAll(file, code); !status) {
    ::close(file);
    return status.error();
  }
  std::string path = spellPath(file);
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(file);
  if (!handle) {
    const char *text = ::dlerror();
    std::string reason = text ? text : "no reason given";
    if (reason.starts_with(path + ": "))
      reason.erase(0, path.size() + 2);
    return makeError("dlopen of the artifact's kernels: ", reason);
  }
  return SharedObject(handle);
}

SharedObject::SharedObject(SharedObject &&other) noexcept
    : handle(std::exchange(other.handle, nullptr)) {}

SharedObject::~SharedObject() {
  if (handle)
    ::dlclose(handle);
}

void *SharedObject::findIfAny(const std::string &symbol) const {
  return ::dlsym(handle, symbol.c_str());
}

Result<void *> SharedObject::find(const std::string &symbol) const {
  void *address = findIfAny(symbol);
  if (!address)
    return makeError("dlsym: the artifact's kernels have no symbol '", symbol,
                     "'");
  return address;
}
