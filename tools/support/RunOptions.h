//===- RunOptions.h - What is run, and on what ------------------*- C++ -*-===//
//
// sextant-run and sextant-prof take the same options about what is run, and on
// what.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_RUNOPTIONS_H
#define SEXTANT_TOOLS_SUPPORT_RUNOPTIONS_H

#include "codegen/Driver/Compile.h"
#include "tools/support/CommandLine.h"
#include "tools/support/Inputs.h"

namespace sextant::tools {

/// The options that sextant-run and sextant-prof share.
struct RunOptions {
  std::string function;
  std::vector<std::string> files, dims;
  int64_t seed = 0, threads = 0;
  codegen::CompileOptions compile;

  void addTo(CommandLine &commandLine);
  InputOptions getInputs() const {
    return {files, dims, static_cast<uint64_t>(seed)};
  }
};

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_RUNOPTIONS_H
