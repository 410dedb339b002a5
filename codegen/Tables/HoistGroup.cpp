//===- HoistGroup.cpp - Hoisted values that are computed together ---------===//

#include "codegen/Tables/HoistGroup.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Whether every hoisted value that `op` uses stands before `first`.
static bool usesOnlyBefore(pos::HoistOp op, pos::HoistOp first) {
  return !op->walk([&](Operation *nested) {
              for (Value value : nested->getOperands()) {
                auto used = value.getDefiningOp<pos::HoistOp>();
                if (used && !used->isBeforeInBlock(first))
                  return WalkResult::interrupt();
              }
              return WalkResult::advance();
            }).wasInterrupted();
}

static bool shareTables(const KernelPlan &plan, const Hoisted &a,
                        const Hoisted &b) {
  return a.form == HoistForm::RowLaneTable && b.form == a.form && !a.param &&
         !b.param && a.op != b.op && a.operand == b.operand &&
         a.perBatch == b.perBatch && a.perHead == b.perHead &&
         a.wantsGradient == b.wantsGradient &&
         a.op->getResultTypes() == b.op->getResultTypes() &&
         countTableColumns(plan, a) == countTableColumns(plan, b) &&
         usesOnlyBefore(b.op, a.op);
}

SmallVector<SmallVector<unsigned>>
codegen::groupHoists(const KernelPlan &plan) {
  SmallVector<SmallVector<unsigned>> groups;
  for (auto [number, entry] : llvm::enumerate(plan.hoisted)) {
    auto *group = llvm::find_if(groups, [&, &entry = entry](auto &known) {
      return shareTables(plan, plan.hoisted[known.front()], entry);
    });
    if (group == groups.end())
      groups.push_back({static_cast<unsigned>(number)});
    else
      group->push_back(number);
  }
  return groups;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// An op of the block, before the last one, that computes what the last does.
static Operation *findEqual(Block &block) {
  Operation &last = block.back();
  for (Operation &op : llvm::drop_end(block))
    if (op.getName() == last.getName() &&
        OperationEquivalence::isEquivalentTo(
            &op, &last, OperationEquivalence::IgnoreLocations))
      return &op;
  return nullptr;
}

OwningOpRef<pos::HoistOp> codegen::mergeBodies(ArrayRef<pos::HoistOp> hoists) {
  pos::HoistOp first = hoists.front();
  OwningOpRef<pos::HoistOp> merged =
      cast<pos::HoistOp>(first->cloneWithoutRegions());
  Block &block = merged->getBody().emplaceBlock();
  SmallVector<Value> results;
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  for (pos::HoistOp hoist : hoists) {
    IRMapping mapping;
    Block &body = hoist.getBody().front();
    for (Operation &op : body.without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      Operation *equal = findEqual(block);
      if (!equal)
        continue;
      mapping.map(op.getResults(), equal->getResults());
      copy->erase();
    }
    results.push_back(
        mapping.lookupOrDefault(body.getTerminator()->getOperand(0)));
  }
  pos::YieldOp::create(builder, first->getLoc(), results);
  return merged;
}
