//===- VerifyLinked.cpp - Checks that every use has its definition --------===//
//
// The pass looks up the definition of each use and of its hosts, and checks
// that no option is left in it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Passes.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYLINKED
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

static LogicalResult verifyUse(Operation *owner, pos::UseAttr use,
                               SymbolTable &symbols) {
  auto definition =
      symbols.lookup<pos::EncodingOp>(use.getEncoding().getValue());
  if (!definition)
    return owner->emitOpError("use '")
           << use.getInstance().getValue() << "' names " << use.getEncoding()
           << ", which is not in the module after linking";
  if (use.getOptions() && !use.getOptions().empty())
    return owner->emitOpError("use '")
           << use.getInstance().getValue() << "' has options after linking";
  for (auto option : definition.getOps<pos::OptionOp>())
    return option.emitOpError("is left after linking");
  if (ArrayAttr hosts = use.getHosts())
    for (auto host : hosts.getAsRange<pos::UseAttr>())
      if (failed(verifyUse(owner, host, symbols)))
        return failure();
  return success();
}

namespace {
/// Changes nothing; fails after a diagnostic.
struct VerifyLinked : passes::impl::VerifyLinkedBase<VerifyLinked> {
  using VerifyLinkedBase::VerifyLinkedBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    WalkResult result =
        getOperation().walk([&](pos::SitesOwnerInterface owner) -> WalkResult {
          ArrayAttr uses = owner.getPendingUses();
          if (uses && !owner->getParentOfType<pos::EncodingOp>())
            for (auto use : uses.getAsRange<pos::UseAttr>())
              if (failed(verifyUse(owner, use, symbols)))
                return failure();
          return success();
        });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
