//===- DiskCache.cpp - Compiled artifacts, kept between processes ---------===//

#include "codegen/Artifact/DiskCache.h"
#include "codegen/Artifact/Artifact.h"
#include "codegen/Artifact/PrivateFiles.h"
#include "runtime/ArtifactFormat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// An entry is what was stored, its key, and a checksum of both.
static constexpr llvm::StringLiteral entrySuffix = ".entry";

static std::string getName(llvm::StringRef key) {
  return (key + entrySuffix).str();
}

DiskCache DiskCache::getDefault() { return DiskCache(getCacheFolder()); }

static uint64_t sum(llvm::StringRef bytes) {
  return sextant::runtime::computeChecksum(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
}

/// Cuts key and checksum off an entry that is whole and the key's own.
static bool unseal(std::string &entry, llvm::StringRef key) {
  uint64_t expected;
  if (entry.size() < key.size() + sizeof(expected))
    return false;
  size_t body = entry.size() - sizeof(expected);
  std::memcpy(&expected, entry.data() + body, sizeof(expected));
  if (expected != sum(llvm::StringRef(entry).take_front(body)))
    return false;
  entry.resize(body);
  if (!llvm::StringRef(entry).ends_with(key))
    return false;
  entry.resize(body - key.size());
  return true;
}

/// Marks a file as used now; failure only makes it older than it is.
static void touch(const std::string &file) {
  (void)::utimensat(AT_FDCWD, file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::optional<std::string> DiskCache::find(llvm::StringRef key) const {
  if (!makePrivateFolder(folder))
    return std::nullopt;
  std::string file = folder + "/" + getName(key);
  std::optional<std::string> entry = readPrivateFile(file, limit);
  if (!entry || !unseal(*entry, key))
    return std::nullopt;
  touch(file);
  return entry;
}

void DiskCache::store(llvm::StringRef key, llvm::StringRef bytes) const {
  std::string entry = (bytes + key).str();
  uint64_t checksum = sum(entry);
  entry.append(reinterpret_cast<const char *>(&checksum), sizeof(checksum));
  if (writePrivateFile(folder, getName(key), entry))
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
    // What a killed process left behind, and what earlier versions kept.
    if ((extension == ".tmp" &&
         status->getLastModificationTime() + std::chrono::hours(1) < now) ||
        extension == ".sxt")
      (void)fs::remove(it->path());
    if (extension != entrySuffix)
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
    // A folder may be an encoding: it then holds the file of its name.
    llvm::SmallString<128> file(it->path());
    if (path::extension(file) != ".mlir")
      path::append(file, path::filename(it->path()) + ".mlir");
    fs::file_status status;
    if (!fs::status(file, status)) // follows links
      files.push_back(file.str().str() + " " + describe(status));
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
    bool isFound = dladdr(reinterpret_cast<void *>(&getBuildId), &info) &&
                   info.dli_fname && !fs::status(info.dli_fname, status);
    // A program that was found on the path has no path here.
    if (isFound || !fs::status("/proc/self/exe", status))
      text += " " + describe(status);
    return text;
  }();
  return id;
}
