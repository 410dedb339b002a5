//===- Inputs.h - What a function is run on ---------------------*- C++ -*-===//
//
// A tool that runs a function needs a tensor for each argument. The user gives
// some as files, the others are made up.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_INPUTS_H
#define SEXTANT_TOOLS_SUPPORT_INPUTS_H

#include "runtime/ArtifactReader.h"

namespace sextant::tools {

/// What a user says of a function's inputs.
struct InputOptions {
  std::vector<std::string> files; ///< "name=file.npy"
  std::vector<std::string> dims;  ///< "name=size"
  uint64_t seed = 0;
};

/// One tensor per argument: from its file, from the manifest where it is a
/// parameter with an initial value, or made up: standard normal floats,
/// integers counting along the dimension before the last. The sizes of
/// dynamic dimensions come from `dims`, by the dimension's name or as
/// "argument.number".
runtime::Result<std::vector<runtime::Tensor>>
makeInputs(const runtime::Artifact &artifact, const runtime::Function &function,
           const InputOptions &options);

/// The function to run: `name`, or the only one if that is empty.
runtime::Result<size_t> chooseFunction(const runtime::Artifact &artifact,
                                       const std::string &name);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_INPUTS_H
