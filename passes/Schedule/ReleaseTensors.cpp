//===- ReleaseTensors.cpp - Releases tensors after their last use ---------===//
//
// The last use of a tensor is the last use of any of its views. Sizes are read
// where a tensor is made, so that reading one later keeps no tensor alive.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/Schedule/Memory.h"
#include "passes/Schedule/Schedule.h"
#include "llvm/ADT/MapVector.h"

namespace sextant::passes {
#define GEN_PASS_DEF_RELEASETENSORS
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Reads sizes where tensors are made.
static void hoistSizes(Block &block) {
  SmallVector<tensor::DimOp> sizes;
  for (auto size : block.getOps<tensor::DimOp>())
    sizes.push_back(size);
  for (tensor::DimOp size : sizes) {
    Operation *index = size.getIndex().getDefiningOp();
    if (!index || !index->hasTrait<OpTrait::ConstantLike>())
      continue;
    if (index->getBlock() == &block)
      index->moveBefore(&block, block.begin());
    if (Operation *maker = size.getSource().getDefiningOp())
      size->moveAfter(maker);
  }
}

/// The last op that uses a tensor or a view of it: the op itself if none does,
/// null if it is given back.
static Operation *findLastUse(Value tensor) {
  Operation *last = tensor.getDefiningOp();
  for (Value view : collectViews(tensor))
    for (Operation *user : view.getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        return nullptr;
      if (last->isBeforeInBlock(user))
        last = user;
    }
  return last;
}

namespace {
/// Inserts the releases of one function after the other.
class ReleaseTensors : public passes::impl::ReleaseTensorsBase<ReleaseTensors> {
public:
  using ReleaseTensorsBase::ReleaseTensorsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      unsigned released = 0;
      for (Block &block : function.getBody())
        released += releaseIn(block);
      numReleased += released;
      remark::passed(
          function.getLoc(),
          remark::RemarkOpts::name("released").category(getArgument()))
          << remark::metric("Tensors", released);
    }
  }

private:
  /// Gives the number of tensors.
  static unsigned releaseIn(Block &block) {
    // Releases that stand already are placed anew: the pass is idempotent.
    for (auto release :
         llvm::make_early_inc_range(block.getOps<exec::ReleaseOp>()))
      release.erase();
    hoistSizes(block);
    llvm::MapVector<Operation *, SmallVector<Value>> releases;
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        continue;
      for (Value result : op.getResults())
        if (isa<RankedTensorType>(result.getType()))
          if (Operation *last = findLastUse(result))
            releases[last].push_back(result);
    }
    unsigned released = 0;
    for (auto &[last, tensors] : releases) {
      OpBuilder builder(block.getParentOp()->getContext());
      builder.setInsertionPointAfter(last);
      exec::ReleaseOp::create(builder, last->getLoc(), tensors);
      released += tensors.size();
    }
    return released;
  }
};
} // namespace
