//===- DiskCache.h - Compiled artifacts, kept between processes -*- C++ -*-===//
//
// One folder of files named by the hash of everything that went into them:
// $XDG_CACHE_HOME/sextant, or ~/.cache/sextant, closed to other users
// (codegen/Artifact/PrivateFiles.h). Files appear whole; when they exceed the
// limit, those not used for longest go. A cache that cannot be read or written
// is no error: compiling goes on without it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_DISKCACHE_H
#define SEXTANT_CODEGEN_ARTIFACT_DISKCACHE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace sextant::codegen {

/// Artifacts by key in a folder of a limited size. Several processes may use
/// one at a time.
class DiskCache {
public:
  static constexpr uint64_t defaultLimit = uint64_t(1) << 30;

  /// The user's cache; without a home directory a cache that keeps nothing.
  static DiskCache getDefault();
  explicit DiskCache(std::string folder, uint64_t limit = defaultLimit)
      : folder(std::move(folder)), limit(limit) {}

  /// What was stored for `key`, and marks it as used now. Files that are
  /// damaged, or of another key under this one's name, do not count.
  std::optional<std::string> find(llvm::StringRef key) const;
  void store(llvm::StringRef key, llvm::StringRef bytes) const;

private:
  void evict() const;

  std::string folder; ///< empty: no cache
  uint64_t limit;     ///< bytes
};

/// Puts what a compilation depends on into one key: hexadecimal SHA-256.
class CacheKey {
public:
  /// Parts are told apart: ("ab", "c") is not ("a", "bc").
  void add(llvm::StringRef part);
  /// The path, size and modification time of every encoding of a folder.
  void addFolder(llvm::StringRef folder);
  std::string finish() const;

private:
  std::string text;
};

/// Changes whenever the compiler is built anew: the size and modification time
/// of the binary that holds this function, and the version.
std::string getBuildId();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_DISKCACHE_H
