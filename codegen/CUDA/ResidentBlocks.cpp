//===- ResidentBlocks.cpp - Blocks that registers leave room for ----------===//

#include "codegen/CUDA/ResidentBlocks.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace sextant::codegen;

/// Takes the request of a kernel back, if it has one: a directive between its
/// parameters and its body.
static bool withdraw(std::string &ptx, const std::string &kernel) {
  size_t begin = ptx.find(".entry " + kernel + "(");
  if (begin == std::string::npos)
    return false;
  size_t directive = ptx.find(".minnctapersm", begin);
  if (directive == std::string::npos || directive > ptx.find('{', begin))
    return false;
  ptx.erase(directive, ptx.find('\n', directive) + 1 - directive);
  return true;
}

bool sextant::codegen::withdrawRequestsThatSpill(
    std::string &ptx, ArrayRef<KernelResources> assembled) {
  bool anyWithdrawn = false;
  for (const KernelResources &kernel : assembled)
    if (kernel.spillStoreBytes || kernel.spillLoadBytes)
      anyWithdrawn |= withdraw(ptx, kernel.kernel);
  return anyWithdrawn;
}
