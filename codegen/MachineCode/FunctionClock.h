//===- FunctionClock.h - Time that LLVM takes per function ------*- C++ -*-===//
//
// A clock tells which function of a module LLVM worked on for how long: which
// kernels are worth making smaller.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_MACHINECODE_FUNCTIONCLOCK_H
#define SEXTANT_CODEGEN_MACHINECODE_FUNCTIONCLOCK_H

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassInstrumentation.h"

namespace sextant::codegen {

/// Milliseconds of the processor, by the function that they were of.
class FunctionClock {
public:
  /// From now on time is `function`'s, until another one is entered or this is
  /// left.
  void enter(llvm::StringRef function);
  void leave() { enter({}); }

  /// Of a function; zero of one that was never entered.
  double getMilliseconds(llvm::StringRef function) const {
    return times.lookup(function);
  }

  /// Has passes of the new pass manager tell which function they run on.
  void watch(llvm::PassInstrumentationCallbacks &callbacks);

private:
  llvm::StringMap<double> times;
  std::string current;
  double since = 0;
};

/// Adds passes to another pass manager, with marks between them that tell a
/// clock which function they run on. The passes run as they would without.
class WatchedPasses : public llvm::legacy::PassManagerBase {
public:
  WatchedPasses(llvm::legacy::PassManagerBase &passes, FunctionClock &clock)
      : passes(passes), clock(clock) {}

  void add(llvm::Pass *pass) override;

private:
  llvm::legacy::PassManagerBase &passes;
  FunctionClock &clock;
  bool isInFunctions = false; ///< where the last pass that was added runs
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_MACHINECODE_FUNCTIONCLOCK_H
