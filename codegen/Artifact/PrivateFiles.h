//===- PrivateFiles.h - The cache folder and its files ----------*- C++ -*-===//
//
// What the cache holds is run as code, so that only this user's own files
// count: the folder is closed to everybody else (0700), its owner and its
// files' owner are checked. Files appear whole (by rename). Nothing here waits:
// a pipe or a device in a file's place is no file, and one that shrinks while
// it is read is one that is short.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_PRIVATEFILES_H
#define SEXTANT_CODEGEN_ARTIFACT_PRIVATEFILES_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace sextant::codegen {

/// $XDG_CACHE_HOME/sextant or ~/.cache/sextant; empty without a home folder.
std::string getCacheFolder();

/// Whether `folder` is this user's own and closed to others: makes it where it
/// is missing, closes it where it is open.
bool makePrivateFolder(const std::string &folder);

/// The bytes of a regular file that this user owns, if it has at most `limit`.
std::optional<std::string> readPrivateFile(const std::string &path,
                                           uint64_t limit);

/// Writes a file of `folder`, whole or not at all: what fails (a full disk)
/// leaves what was there.
bool writePrivateFile(const std::string &folder, llvm::StringRef name,
                      llvm::StringRef bytes);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_PRIVATEFILES_H
