//===- LowerAttention.cpp - From attention to launches of kernels ---------===//

#include "codegen/Driver/LowerAttention.h"
#include "codegen/Driver/TargetChoice.h"
#include "codegen/Emit/ShapeChecks.h"
#include "codegen/Reference/ReadChecks.h"
#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/RowIndices.h"
#include "codegen/Tables/TurnRows.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Remarks.h"
#include "passes/Verify/Stages.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sextant::codegen {
#define GEN_PASS_DEF_LOWERATTENTION
#include "codegen/Driver/LowerAttention.h.inc"
} // namespace sextant::codegen

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// Everything that the kernels of an op follow from, as text: equal texts mean
/// equal kernels. Operands count by their types and by which of them are the
/// same: a launch need not look twice at positions that both sides share.
static std::string getStructure(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getName() << op->getAttrDictionary();
  llvm::SmallDenseMap<Value, unsigned> numbers;
  for (Value operand : op->getOperands()) {
    unsigned number =
        numbers.try_emplace(operand, numbers.size()).first->second;
    stream << " %" << number << ':' << operand.getType();
  }
  stream << " ->";
  for (Type type : op->getResultTypes())
    stream << ' ' << type;
  // Values are numbered within the op, which is isolated from above.
  AsmState state(op, OpPrintingFlags().printGenericOpForm());
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments()) {
        argument.printAsOperand(stream, state);
        stream << ':' << argument.getType() << ' ';
      }
      for (Operation &nested : block) {
        nested.print(stream, state);
        stream << '\n';
      }
    }
  return text;
}

static LoweringFunction select(const TargetLowerings &lowerings,
                               Operation *op) {
  return llvm::TypeSwitch<Operation *, LoweringFunction>(op)
      .Case<pos::AttentionOp>([&](auto) { return lowerings.attention; })
      .Case<pos::AttentionBackwardOp>(
          [&](auto) { return lowerings.attentionBackward; })
      .Case<pos::MapRowsOp>([&](auto) { return lowerings.mapRows; })
      .Case<pos::MapRowsBackwardOp>(
          [&](auto) { return lowerings.mapRowsBackward; })
      .Default([](auto) { return nullptr; });
}

/// Rows are of a type that the target has kernels for (C8).
static LogicalResult verifyElements(pos::SitesOwnerInterface owner,
                                    const Target &target) {
  Type element = getElementTypeOrSelf(owner->getOperand(0).getType());
  std::string name;
  llvm::raw_string_ostream(name) << element;
  if (llvm::is_contained(target.elementTypes, name))
    return success();
  InFlightDiagnostic diag = owner.emitOpError("target ")
                            << target.name << " computes ";
  llvm::interleave(
      target.elementTypes, [&](StringRef type) { diag << type; },
      [&] { diag << " and "; });
  diag << ", not " << element;
  if (element.isF64())
    diag << "; the target 'reference' computes f64";
  else if (element.isF16())
    diag << "; targets of GPUs compute f16, such as cuda:sm_80";
  return diag;
}

namespace {
class LowerAttention
    : public codegen::impl::LowerAttentionBase<LowerAttention> {
public:
  using LowerAttentionBase::LowerAttentionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::Expected<Target> parsed = parseTarget(target, getRowType(module));
    if (!parsed) {
      module.emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    SmallVector<pos::SitesOwnerInterface> owners;
    module.walk([&](pos::SitesOwnerInterface op) { owners.push_back(op); });
    if (owners.empty())
      return;
    if (failed(passes::requireStage(module, passes::Stage::Hoisted,
                                    getArgument())))
      return signalPassFailure();
    ModuleOp kernels = getKernelsModule(module);
    llvm::StringMap<std::string> prefixes;
    for (pos::SitesOwnerInterface owner : owners) {
      auto [entry, isNew] = prefixes.try_emplace(getStructure(owner));
      if (isNew)
        entry->second = (owner->getName().stripDialect() + "_" +
                         Twine(prefixes.size() - 1) + "_")
                            .str();
      else
        ++numShared;
      if (failed(lower(owner, kernels, entry->second, *parsed, checkReads)))
        return signalPassFailure();
      ++numLowered;
    }
    remark::passed(module.getLoc(),
                   remark::RemarkOpts::name("lowered").category(getArgument()))
        << remark::metric("Ops", owners.size())
        << remark::metric("Structures", prefixes.size());
  }

private:
  static LogicalResult lower(pos::SitesOwnerInterface owner, ModuleOp kernels,
                             StringRef prefix, const Target &target,
                             bool checkReads) {
    LoweringFunction function = select(target.lowerings, owner);
    if (!function)
      return owner.emitOpError("target ")
             << target.name << " has no kernel of this op";
    if (failed(verifyElements(owner, target)))
      return failure();
    FailureOr<KernelPlan> plan = planKernel(owner);
    if (failed(plan))
      return failure();
    OpBuilder builder(owner);
    emitShapeChecks(builder, owner);
    Lowering lowering{builder, kernels, prefix, target.vector, *plan};
    emitSpanChecks(lowering);
    emitIndexChecks(lowering);
    if (checkReads && failed(emitReadChecks(builder, kernels, prefix, owner)))
      return failure();
    TurnedRows turned(lowering);
    turned.apply();
    FailureOr<SmallVector<Value>> results = function(lowering);
    if (failed(results))
      return failure();
    turned.pullBack(*results);
    if (failed(lowering.status))
      return failure();
    owner->replaceAllUsesWith(*results);
    owner->erase();
    return success();
  }
};
} // namespace
