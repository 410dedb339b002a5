//===- SearchPath.cpp - Where encodings are found -------------------------===//
//
// Sextant's own encodings lie beside the library or program that holds this
// code (`encodings/`, as in the Python package), under the prefix it is
// installed to (`share/sextant/encodings`), or in the source tree.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/SearchPath.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cstdlib>
#include <dlfcn.h>

using namespace llvm;
using namespace sextant::passes;

/// The folder of the program or shared object that this code is part of.
static std::string ownFolder() {
  static const char anchor = 0;
  Dl_info info;
  if (!dladdr(&anchor, &info) || !info.dli_fname)
    return "";
  SmallString<256> path;
  if (sys::fs::real_path(info.dli_fname, path))
    return "";
  return sys::path::parent_path(path).str();
}

static std::optional<std::string> installedFolder() {
  SmallVector<std::string> candidates;
  if (std::string own = ownFolder(); !own.empty()) {
    candidates.push_back(own + "/encodings");
    candidates.push_back(own + "/../share/sextant/encodings");
  }
  candidates.push_back(SEXTANT_ENCODINGS);
  for (std::string &candidate : candidates)
    if (sys::fs::is_directory(candidate))
      return candidate;
  return std::nullopt;
}

SearchPath::SearchPath(StringRef option) {
  auto append = [&](StringRef list) {
    for (StringRef folder : llvm::split(list, ':'))
      if (!folder.empty())
        folders.push_back(folder.str());
  };
  append(option);
  if (const char *environment = std::getenv("SEXTANT_PATH"))
    append(environment);
  if (std::optional<std::string> installed = installedFolder())
    folders.push_back(*installed);
}

std::optional<std::string> SearchPath::find(StringRef encoding) const {
  for (const std::string &folder : folders) {
    SmallString<256> path(folder);
    sys::path::append(path, encoding + ".mlir");
    if (sys::fs::exists(path))
      return std::string(path);
    SmallString<256> inside(folder);
    sys::path::append(inside, encoding, encoding + ".mlir");
    if (sys::fs::exists(inside))
      return std::string(inside);
  }
  return std::nullopt;
}

std::string SearchPath::describeMissing() const {
  SmallVector<std::string> missing;
  for (const std::string &folder : folders)
    if (!sys::fs::is_directory(folder))
      missing.push_back("'" + folder + "'");
  if (missing.empty())
    return "";
  return "; " + llvm::join(missing, ", ") +
         (missing.size() == 1 ? " on the search path is no folder"
                              : " on the search path are no folders");
}

SmallVector<std::string> SearchPath::list() const {
  SmallVector<std::string> names;
  for (const std::string &folder : folders) {
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end;
         it != end && !error; it.increment(error)) {
      StringRef path = it->path();
      StringRef name = sys::path::stem(path);
      SmallString<256> inside(path);
      sys::path::append(inside, name + ".mlir");
      if (sys::path::extension(path) == ".mlir" || sys::fs::exists(inside))
        names.push_back(name.str());
    }
  }
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  return names;
}
