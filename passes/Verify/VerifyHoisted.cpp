//===- VerifyHoisted.cpp - Stage verifier ---------------------------------===//
//
// The pass checks that each hoisted value varies with its axes at most, and
// that nothing is left in a payload that should be hoisted (Stages.h).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYHOISTED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace sextant;

namespace {
/// Changes nothing; fails after a diagnostic.
struct VerifyHoisted : passes::impl::VerifyHoistedBase<VerifyHoisted> {
  using VerifyHoistedBase::VerifyHoistedBase;

  void runOnOperation() override {
    if (failed(passes::verifyStage(getOperation(), passes::Stage::Hoisted)) ||
        failed(passes::verifyPast(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
