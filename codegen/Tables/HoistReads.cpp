//===- HoistReads.cpp - What hoisted values read of parameters ------------===//

#include "codegen/Tables/HoistReads.h"
#include "codegen/Plan/RowLaneTables.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value codegen::getReadParam(Operation *op) {
  if (auto read = dyn_cast<pos::ReadOp>(op))
    return read.getTensor();
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return contract.getMatrix();
  if (auto elements = dyn_cast<pos::ElementsOp>(op))
    return elements.getParam();
  return {};
}

/// The reads of a parameter in the bodies of a group; none where something else
/// reads it as well.
static SmallVector<pos::ReadOp>
findReads(const KernelPlan &plan, ArrayRef<unsigned> group, unsigned param) {
  SmallVector<pos::ReadOp> reads;
  for (unsigned number : group) {
    WalkResult others = plan.hoisted[number].op->walk([&](Operation *op) {
      auto tensor = dyn_cast_or_null<BlockArgument>(getReadParam(op));
      if (!tensor || tensor.getArgNumber() != param)
        return WalkResult::advance();
      auto read = dyn_cast<pos::ReadOp>(op);
      if (!read)
        return WalkResult::interrupt();
      reads.push_back(read);
      return WalkResult::advance();
    });
    if (others.wasInterrupted())
      return {};
  }
  return reads;
}

/// Whether a group's reads of a parameter are of separate elements where an
/// index that `isSuch` differs.
static bool isSeparateBy(const KernelPlan &plan, ArrayRef<unsigned> group,
                         unsigned param, function_ref<bool(Value)> isSuch) {
  SmallVector<pos::ReadOp> reads = findReads(plan, group, param);
  return !reads.empty() && findDim(reads, isSuch);
}

bool codegen::isSeparatePerHead(const KernelPlan &plan,
                                ArrayRef<unsigned> group,
                                ArrayRef<unsigned> params) {
  bool separate = llvm::all_of(params, [&](unsigned param) {
    return isSeparateBy(plan, group, param, [](Value index) {
      return index.getDefiningOp<pos::HeadOp>() != nullptr;
    });
  });
  for (unsigned number : group) {
    const Hoisted &entry = plan.hoisted[number];
    separate &= entry.perHead;
    entry.op->walk([&](Operation *op) {
      for (Value value : op->getOperands())
        if (auto hoist = value.getDefiningOp<pos::HoistOp>()) {
          const Hoisted *used = plan.find(hoist, entry.operand);
          separate &= !used->wantsGradient || used->perHead;
        }
    });
  }
  return separate;
}

bool codegen::isSeparatePerRow(const KernelPlan &plan, ArrayRef<unsigned> group,
                               unsigned param) {
  auto isTensorRow = [](Value index) {
    return index.getDefiningOp<pos::TensorRowOp>() != nullptr;
  };
  // One row's index may be another one's place in its tensor.
  auto isIndex = [&](Value index) {
    return isOfRow(index) && !isTensorRow(index);
  };
  auto isTerm = [](Value index) {
    auto own = dyn_cast<BlockArgument>(index);
    return own && isa<pos::RunningSumOp>(own.getOwner()->getParentOp());
  };
  auto isBy = [&](function_ref<bool(Value)> isSuch) {
    return isSeparateBy(plan, group, param, isSuch);
  };
  return isBy(isTensorRow) || isBy(isIndex) || isBy(isTerm);
}
