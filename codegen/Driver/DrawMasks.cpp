//===- DrawMasks.cpp - Random masks by kernels ----------------------------===//

#include "codegen/Driver/LowerAttention.h"
#include "codegen/Driver/TargetChoice.h"
#include "codegen/Rows/RandomMask.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace sextant::codegen {
#define GEN_PASS_DEF_DRAWMASKS
#include "codegen/Driver/LowerAttention.h.inc"
} // namespace sextant::codegen

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// The operator whose generator LibTorch's stable ABI cannot make.
static constexpr StringLiteral drawingOperator = "aten::bernoulli.p";

/// The host does not read the number: the device tells of it later.
static void checkCounter(OpBuilder &builder, Location loc, Value counter,
                         StringRef what) {
  auto type = RankedTensorType::get({1}, builder.getI64Type());
  Value view = exec::ViewOp::create(builder, loc, type, counter,
                                    /*permutation=*/nullptr, ValueRange());
  auto check = [&](exec::Predicate predicate, int64_t bound) {
    exec::CheckDataOp::create(
        builder, loc, view, /*number=*/0, predicate,
        arith::ConstantIndexOp::create(builder, loc, bound),
        ("the " + what + " of a generator must be in 0 .. 2^32 - 1").str());
  };
  check(exec::Predicate::at_least, 0);
  check(exec::Predicate::at_most, std::numeric_limits<uint32_t>::max());
}

namespace {
class DrawMasks : public codegen::impl::DrawMasksBase<DrawMasks> {
public:
  using DrawMasksBase::DrawMasksBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<Target> parsed = parseTarget(target);
    if (!parsed) {
      module.emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    SmallVector<exec::DenseOp> draws;
    module.walk([&](exec::DenseOp op) {
      if (op.getOp() == drawingOperator)
        draws.push_back(op);
    });
    llvm::DenseSet<Value> checked;
    for (exec::DenseOp op : draws) {
      if (failed(lower(op, getKernelsModule(module), parsed->vector, checked)))
        return signalPassFailure();
      ++numDrawn;
    }
    if (!draws.empty())
      remark::passed(module.getLoc(),
                     remark::RemarkOpts::name("drawn").category(getArgument()))
          << remark::metric("Masks", draws.size());
  }

private:
  static LogicalResult lower(exec::DenseOp op, ModuleOp kernels,
                             const VectorTarget &target,
                             llvm::DenseSet<Value> &checked) {
    // A tensor, a probability and the list of what the generator is made of.
    ValueRange operands = op.getOperands();
    ArrayRef<Attribute> arguments = op.getArguments().getValue();
    auto probability = arguments.size() < 3 || operands.size() != 4
                           ? FloatAttr()
                           : dyn_cast<FloatAttr>(arguments[1]);
    if (!probability)
      return op.emitOpError("expected a tensor, a constant probability, and a "
                            "generator of seed, step and place");
    OpBuilder builder(op);
    KernelPlan none;
    Lowering lowering{builder, kernels, "random_mask_", target, none};
    Generator generator{operands[1], operands[2], operands[3]};
    for (auto [counter, what] : {std::pair(generator.step, "step"),
                                 std::pair(generator.place, "place")})
      if (!counter.getDefiningOp<arith::ConstantOp>() &&
          checked.insert(counter).second)
        checkCounter(builder, op.getLoc(), counter, what);
    Value mask = launchRandomMask(lowering, operands[0], generator,
                                  probability.getValueAsDouble());
    if (failed(lowering.status))
      return failure();
    op->getResult(0).replaceAllUsesWith(mask);
    op->erase();
    return success();
  }
};
} // namespace
