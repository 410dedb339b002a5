//===- VerifyInlined.cpp - Stage verifier ---------------------------------===//
//
// The pass checks that of encodings only sites are left (Stages.h).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYINLINED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace sextant;

namespace {
/// Changes nothing; fails after a diagnostic.
struct VerifyInlined : passes::impl::VerifyInlinedBase<VerifyInlined> {
  using VerifyInlinedBase::VerifyInlinedBase;

  void runOnOperation() override {
    if (failed(passes::verifyStage(getOperation(), passes::Stage::Inlined)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
