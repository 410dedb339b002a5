//===- Target.cpp - What kernels are compiled for -------------------------===//

#include "codegen/TargetChoice.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/Host.h"

using namespace sextant::codegen;

/// The CPU targets, best first.
static llvm::ArrayRef<Target> getCPUTargets() {
  static const Target targets[] = {
      {TargetKind::CPU,
       "cpu:avx512bf16",
       "x86-64-v4",
       "+avx512bf16",
       {.width = 16, .registers = 32, .hasScalef = true, .hasBf16Dot = true},
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "avx512bf16"}},
      {TargetKind::CPU,
       "cpu:avx512",
       "x86-64-v4",
       "",
       {.width = 16, .registers = 32, .hasScalef = true},
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"}},
      {TargetKind::CPU,
       "cpu:avx2",
       "x86-64-v3",
       "",
       {.width = 8, .registers = 16},
       {"avx2", "fma"}},
  };
  return targets;
}

static bool runsOnHost(const Target &target) {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  return llvm::all_of(target.required, [&](llvm::StringRef feature) {
    return features.lookup(feature);
  });
}

static Target getReference() {
  Target reference;
  reference.name = "reference";
  reference.cpu = "x86-64";
  reference.vector = {.width = 1, .registers = 16};
  return reference;
}

llvm::SmallVector<llvm::StringRef> sextant::codegen::getHostTargets() {
  llvm::SmallVector<llvm::StringRef> names{"reference"};
  for (const Target &target : getCPUTargets())
    if (runsOnHost(target))
      names.push_back(target.name);
  return names;
}

llvm::Expected<Target> sextant::codegen::parseTarget(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> known{"reference", "cpu"};
  if (name == "reference")
    return getReference();
  if (name == "cpu")
    return chooseTarget(RowType::F32);
  for (const Target &target : getCPUTargets()) {
    known.push_back(target.name);
    if (name == target.name)
      return target;
  }
  return llvm::createStringError("unknown target '" + name +
                                 "', expected one of " +
                                 llvm::join(known, ", "));
}
