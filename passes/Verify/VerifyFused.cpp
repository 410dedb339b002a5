//===- VerifyFused.cpp - Stage verifier -----------------------------------===//
//
// The pass checks that each attention has at most one score and one mask, and
// no query a later key where a past is required (Stages.h).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYFUSED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace sextant;

namespace {
/// Changes nothing; fails after a diagnostic.
struct VerifyFused : passes::impl::VerifyFusedBase<VerifyFused> {
  using VerifyFusedBase::VerifyFusedBase;

  void runOnOperation() override {
    if (failed(passes::verifyStage(getOperation(), passes::Stage::Fused)) ||
        failed(passes::verifyPast(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
