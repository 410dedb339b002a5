//===- SearchPath.h - Where encodings are found -----------------*- C++ -*-===//
//
// An encoding is a file, or a folder that holds a file of its name beside what
// else belongs to it. Both are found along a list of folders.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_SEARCHPATH_H
#define SEXTANT_PASSES_ENCODING_SEARCHPATH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace sextant::passes {

/// Folders that hold encodings, in the order in which they are searched: those
/// of `option` (separated by colons), those of SEXTANT_PATH, then Sextant's
/// own.
class SearchPath {
public:
  explicit SearchPath(llvm::StringRef option);

  /// The file that defines the encoding, in the first folder that has it.
  std::optional<std::string> find(llvm::StringRef encoding) const;

  /// Names of all encodings on the path, sorted.
  llvm::SmallVector<std::string> list() const;

  llvm::ArrayRef<std::string> getFolders() const { return folders; }

  /// What the path lists and is no folder, as text that follows a message:
  /// "; 'a', 'b' on the search path are no folders", or nothing.
  std::string describeMissing() const;

private:
  llvm::SmallVector<std::string> folders;
};

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_SEARCHPATH_H
