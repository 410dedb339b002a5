//===- Surroundings.cpp - What a call asks of the system ------------------===//

#include "frontend/bindings/Surroundings.h"
#include <optional>
#include <sys/stat.h>

using namespace sextant::bindings;

static std::optional<FileVersion> getVersion(std::string path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    return std::nullopt;
  constexpr int64_t second = 1'000'000'000;
  return FileVersion{std::move(path),
                     status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec,
                     status.st_size, status.st_ino};
}

static std::optional<FileVersion>
findDefinition(const std::vector<std::string> &folders,
               const std::string &name) {
  for (const std::string &folder : folders) {
    std::string inFolder = folder + "/" + name;
    if (auto version = getVersion(inFolder + ".mlir"))
      return version;
    if (auto version = getVersion(inFolder + "/" + name + ".mlir"))
      return version;
  }
  return std::nullopt;
}

std::vector<FileVersion>
sextant::bindings::findDefinitions(const std::vector<std::string> &folders,
                                   const std::vector<std::string> &names) {
  std::vector<FileVersion> found;
  for (const std::string &name : names)
    if (auto version = findDefinition(folders, name))
      found.push_back(std::move(*version));
  return found;
}
