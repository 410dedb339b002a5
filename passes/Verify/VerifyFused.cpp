//===- VerifyFused.cpp - Stage verifier -----------------------------------===//

#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYFUSED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace sextant;

namespace {
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
