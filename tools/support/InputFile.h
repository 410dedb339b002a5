//===- InputFile.h - Files that a user names --------------------*- C++ -*-===//
//
// Tools read the files that a user names with these functions, which refuse
// what is no regular file.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_INPUTFILE_H
#define SEXTANT_TOOLS_SUPPORT_INPUTFILE_H

#include "runtime/Result.h"
#include <string>

namespace sextant::tools {

/// The bytes of a regular file, or of the standard input for "-". A pipe or a
/// device is an error, not a wait; a file that shrinks meanwhile is one, too.
runtime::Result<std::string> readInputFile(const std::string &path);

/// Whether these bytes begin as an artifact does, whatever the file is called.
bool isArtifact(const std::string &bytes);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_INPUTFILE_H
