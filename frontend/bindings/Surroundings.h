//===- Surroundings.h - What a call asks of the system ----------*- C++ -*-===//
//
// The environment and the files of definitions, as they are now. Each call of
// an attention asks for them, which takes Python longer than a short attention.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_SURROUNDINGS_H
#define SEXTANT_FRONTEND_BINDINGS_SURROUNDINGS_H

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::bindings {

/// A file as it is now: another time, size or number is another file.
struct FileVersion {
  std::string path;
  int64_t nanoseconds; ///< when it was changed
  int64_t bytes;
  uint64_t number;
};

/// The file that defines each of these encodings: NAME.mlir or NAME/NAME.mlir
/// in the first folder that has one of them. What no folder has is left out.
std::vector<FileVersion>
findDefinitions(const std::vector<std::string> &folders,
                const std::vector<std::string> &names);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_SURROUNDINGS_H
