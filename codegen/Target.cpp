//===- Target.cpp - What kernels are compiled for -------------------------===//
//
// Two processors with the same instructions differ in which of them are fast:
// one runs dot products of bf16 at twice the rate of multiply-adds of f32,
// another at half. So `cpu` follows a measurement, and the type of the rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/Target.h"
#include "codegen/UnitRecord.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
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

Unit sextant::codegen::getUnit(const Target &target, RowType rows) {
  if (target.vector.width < 16)
    return Unit::MultiplyAdd256;
  return target.vector.hasBf16Dot && rows == RowType::BF16
             ? Unit::Bf16Dot512
             : Unit::MultiplyAdd512;
}

llvm::Expected<Target> sextant::codegen::chooseTarget(const UnitRates &rates,
                                                      RowType rows) {
  // Wide vectors have more registers, and dot products load half the bytes: a
  // target further down has to be faster than the noise of the measurement. Of
  // those on the same unit, the one that asks for less runs on more machines.
  constexpr double margin = 1.1;
  const Target *best = nullptr;
  double rate = 0.0;
  for (const Target &target : getCPUTargets()) {
    if (!runsOnHost(target))
      continue;
    Unit unit = getUnit(target, rows);
    double other = rates[static_cast<size_t>(unit)];
    if (!best || unit == getUnit(*best, rows) || other > margin * rate) {
      best = &target;
      rate = other;
    }
  }
  if (best)
    return *best;
  return llvm::createStringError(
      "this processor has neither AVX2 with FMA nor AVX-512: only the target "
      "'reference' runs here");
}

static llvm::Expected<Target>
findTarget(llvm::StringRef name, llvm::StringRef where,
           llvm::ArrayRef<llvm::StringRef> known) {
  if (name == "reference")
    return getReference();
  for (const Target &target : getCPUTargets())
    if (name == target.name)
      return target;
  return llvm::createStringError(where + "unknown target '" + name +
                                 "', expected one of " +
                                 llvm::join(known, ", "));
}

/// What SEXTANT_TARGET names, which this machine must run: it takes the place
/// of `cpu`, the best that this machine runs.
static llvm::Expected<Target> findChosenTarget(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> known = getHostTargets();
  llvm::Expected<Target> target = findTarget(name, "SEXTANT_TARGET: ", known);
  if (target && !runsOnHost(*target))
    return llvm::createStringError(
        "SEXTANT_TARGET: this processor does not run '" + name +
        "', expected one of " + llvm::join(known, ", "));
  return target;
}

llvm::Expected<Target> sextant::codegen::parseTarget(llvm::StringRef name,
                                                     RowType rows) {
  if (name == "cpu") {
    std::optional<std::string> chosen =
        llvm::sys::Process::GetEnv("SEXTANT_TARGET");
    if (chosen && !chosen->empty() && *chosen != "cpu")
      return findChosenTarget(*chosen);
    return chooseTarget(getUnitRates(), rows);
  }
  llvm::SmallVector<llvm::StringRef> known{"reference", "cpu"};
  for (const Target &target : getCPUTargets())
    known.push_back(target.name);
  return findTarget(name, "", known);
}
