//===- FunctionClock.cpp - Time that LLVM takes per function --------------===//
//
// The new pass manager calls back before each pass. The old one does not:
// passes that change nothing stand where it begins with a function or a module.
//
//===----------------------------------------------------------------------===//

#include "codegen/MachineCode/FunctionClock.h"
#include "llvm/IR/Function.h"
#include "llvm/Pass.h"
#include "llvm/Support/Timer.h"

using namespace llvm;
using namespace sextant::codegen;

void FunctionClock::enter(StringRef function) {
  if (function == current)
    return;
  double now =
      1000 * TimeRecord::getCurrentTime(/*Start=*/false).getProcessTime();
  if (!current.empty())
    times[current] += now - since;
  current = function.str();
  since = now;
}

void FunctionClock::watch(PassInstrumentationCallbacks &callbacks) {
  callbacks.registerBeforeNonSkippedPassCallback([this](StringRef, Any unit) {
    if (const auto *function = any_cast<const Function *>(&unit))
      enter((*function)->getName());
    else if (any_cast<const Module *>(&unit))
      leave();
  });
}

//===----------------------------------------------------------------------===//
// Marks between passes
//===----------------------------------------------------------------------===//

namespace {
/// Enters the function that the passes after it run on.
class FunctionMark : public FunctionPass {
public:
  explicit FunctionMark(FunctionClock &clock)
      : FunctionPass(id), clock(clock) {}
  bool runOnFunction(Function &function) override {
    clock.enter(function.getName());
    return false;
  }
  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
  }

private:
  static char id;
  FunctionClock &clock;
};

/// Leaves the last function that the passes before it ran on.
class ModuleMark : public ModulePass {
public:
  explicit ModuleMark(FunctionClock &clock) : ModulePass(id), clock(clock) {}
  bool runOnModule(Module & /*module*/) override {
    clock.leave();
    return false;
  }
  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
  }

private:
  static char id;
  FunctionClock &clock;
};
} // namespace

char FunctionMark::id = 0;
char ModuleMark::id = 0;

void WatchedPasses::add(Pass *pass) {
  // What never runs stands in no order.
  bool runs = !pass->getAsImmutablePass();
  PassKind kind = pass->getPassKind();
  if (runs && kind == PT_Module && std::exchange(isInFunctions, false))
    passes.add(new ModuleMark(clock));
  else if (runs && (kind == PT_Function || kind == PT_Loop) &&
           !std::exchange(isInFunctions, true))
    passes.add(new FunctionMark(clock));
  passes.add(pass);
}
