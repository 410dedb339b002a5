//===- DiskCache.cpp - Compiled artifacts, kept between processes ---------===//

#include "codegen/DiskCache.h"
#include "codegen/Artifact.h"
#include "runtime/ArtifactFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include <cstring>
#include <dlfcn.h>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

DiskCache DiskCache::getDefault() {
  llvm::SmallString<128> folder;
  std::optional<std::string> base =
      llvm::sys::Process::GetEnv("XDG_CACHE_HOME");
  if (base && path::is_absolute(*base))
    folder = *base;
  else if (path::home_directory(folder))
    path::append(folder, ".cache");
  else
    return DiskCache("");
  path::append(folder, "sextant");
  return DiskCache(folder.str().str());
}

std::string DiskCache::getPath(llvm::StringRef key) const {
  return folder + "/" + key.str() + ".sxt";
}

/// Whether the last bytes are the checksum of those before.
static bool isWhole(llvm::StringRef bytes) {
  using namespace sextant::runtime;
  if (bytes.size() < checksumBytes)
    return false;
  uint64_t sum;
  size_t body = bytes.size() - checksumBytes;
  std::memcpy(&sum, bytes.data() + body, checksumBytes);
  return sum == computeChecksum(
                    {reinterpret_cast<const uint8_t *>(bytes.data()), body});
}

/// Marks a file as used now; failure only makes it older than it is.
static void touch(const std::string &file) {
  llvm::Expected<fs::file_t> handle =
      fs::openNativeFileForWrite(file, fs::CD_OpenExisting, fs::OF_None);
  if (!handle) {
    llvm::consumeError(handle.takeError());
    return;
  }
  (void)fs::setLastAccessAndModificationTime(*handle,
                                             std::chrono::system_clock::now());
  (void)fs::closeFile(*handle);
}

std::optional<std::string> DiskCache::find(llvm::StringRef key) const {
  if (folder.empty())
    return std::nullopt;
  std::string file = getPath(key);
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer || !isWhole((*buffer)->getBuffer()))
    return std::nullopt;
  touch(file);
  return (*buffer)->getBuffer().str();
}

void DiskCache::store(llvm::StringRef key, llvm::StringRef bytes) const {
  if (folder.empty() || fs::create_directories(folder))
    return;
  int handle;
  llvm::SmallString<128> temporary;
  if (fs::createUniqueFile(folder + "/" + key + "-%%%%%%.tmp", handle,
                           temporary))
    return;
  llvm::raw_fd_ostream stream(handle, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  bool failed = stream.has_error();
  stream.clear_error();
  if (failed || fs::rename(temporary, getPath(key))) {
    (void)fs::remove(temporary);
    return;
  }
  evict();
}

void DiskCache::evict() const {
  struct File {
    std::string path;
    llvm::sys::TimePoint<> used;
    uint64_t bytes;
  };
  std::vector<File> files;
  uint64_t total = 0;
  auto now = std::chrono::system_clock::now();
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    llvm::ErrorOr<fs::basic_file_status> status = it->status();
    if (!status || status->type() != fs::file_type::regular_file)
      continue;
    llvm::StringRef extension = path::extension(it->path());
    // What a killed process left behind.
    if (extension == ".tmp" &&
        status->getLastModificationTime() + std::chrono::hours(1) < now)
      (void)fs::remove(it->path());
    if (extension != ".sxt")
      continue;
    files.push_back(
        {it->path(), status->getLastModificationTime(), status->getSize()});
    total += status->getSize();
  }
  if (total <= limit)
    return;
  llvm::sort(files,
             [](const File &a, const File &b) { return a.used < b.used; });
  for (const File &file : files) {
    if (total <= limit)
      return;
    if (!fs::remove(file.path))
      total -= file.bytes;
  }
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

void CacheKey::add(llvm::StringRef part) {
  text += std::to_string(part.size());
  text += ':';
  text += part;
}

static std::string describe(const fs::file_status &status) {
  return std::to_string(status.getSize()) + "@" +
         std::to_string(
             status.getLastModificationTime().time_since_epoch().count());
}

void CacheKey::addFolder(llvm::StringRef folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (path::extension(it->path()) != ".mlir")
      continue;
    fs::file_status status;
    if (!fs::status(it->path(), status)) // follows links
      files.push_back(it->path() + " " + describe(status));
  }
  llvm::sort(files);
  add(folder);
  for (const std::string &file : files)
    add(file);
}

std::string CacheKey::finish() const {
  llvm::SHA256 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

std::string sextant::codegen::getBuildId() {
  static const std::string id = [] {
    std::string text = getCompilerVersion();
    Dl_info info;
    fs::file_status status;
    if (dladdr(reinterpret_cast<void *>(&getBuildId), &info) &&
        info.dli_fname && !fs::status(info.dli_fname, status))
      text += " " + describe(status);
    return text;
  }();
  return id;
}
