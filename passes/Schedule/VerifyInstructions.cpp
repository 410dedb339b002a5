//===- VerifyInstructions.cpp - Functions are lists of instructions -------===//
//
// The pass follows tensors from where they are made to their release, op by op.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/IR/Exec.h"
#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Schedule/Schedule.h"
#include "llvm/ADT/DenseMap.h"

namespace sextant::passes {
#define GEN_PASS_DEF_VERIFYINSTRUCTIONS
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

static bool isInstruction(Operation &op) {
  return isa<tensor::DimOp, tensor::CastOp, func::ReturnOp>(op) ||
         isa_and_present<exec::ExecDialect, arith::ArithDialect>(
             op.getDialect());
}

static LogicalResult
verifyRelease(exec::ReleaseOp release,
              llvm::DenseMap<Value, Operation *> &released) {
  for (Value tensor : release.getTensors()) {
    Operation *maker = tensor.getDefiningOp();
    if (!maker || maker->hasTrait<OpTrait::ConstantLike>())
      return release.emitOpError("drops what the function has not made");
    released[tensor] = release;
  }
  return success();
}

static LogicalResult verifyBlock(Block &block) {
  llvm::DenseMap<Value, Operation *> released;
  for (Operation &op : block) {
    if (!isInstruction(op)) {
      InFlightDiagnostic diag =
          op.emitOpError("is not an instruction of the exec level");
      if (isa<pos::SitesOwnerInterface>(op))
        diag << ": pos-lower-attention comes before";
      else if (isa_and_present<nn::NnDialect>(op.getDialect()))
        diag << ": nn-convert-to-exec comes before";
      return diag;
    }
    for (Value operand : op.getOperands())
      if (Operation *release = released.lookup(operand)) {
        InFlightDiagnostic diag =
            op.emitOpError("uses a tensor after its release");
        diag.attachNote(release->getLoc()) << "released here";
        return diag;
      }
    if (auto release = dyn_cast<exec::ReleaseOp>(op))
      if (failed(verifyRelease(release, released)))
        return failure();
  }
  return success();
}

namespace {
/// Verifies one function after the other.
class VerifyInstructions
    : public passes::impl::VerifyInstructionsBase<VerifyInstructions> {
public:
  using VerifyInstructionsBase::VerifyInstructionsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (!function.getBody().hasOneBlock()) {
        function.emitOpError("expected a body of one block");
        return signalPassFailure();
      }
      if (failed(verifyBlock(function.front())))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
