//===- LaunchHash.h - What a launch was compiled for ------------*- C++ -*-===//
//
// A kernel relies on more than the types of its operands: a buffer that it
// writes has as many elements as the program made from the sizes of its
// arguments. The hash of a launch covers its kernel, its operands with their
// types, how their sizes and the scalars follow from the function's arguments,
// and the launches before it. The compiler puts the name of each launch among
// the symbols of the object; a launch that the kernels do not know is refused
// at load.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_LAUNCHHASH_H
#define SEXTANT_RUNTIME_LAUNCHHASH_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// A launch, by its instruction, and the symbol that stands for it.
struct LaunchSymbol {
  size_t instruction;
  uint32_t kernel;
  std::string symbol;
};

/// The launches of a function of a checked artifact, in their order.
std::vector<LaunchSymbol> findLaunchSymbols(const Artifact &artifact,
                                            const Function &function);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_LAUNCHHASH_H
