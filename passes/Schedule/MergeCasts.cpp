//===- MergeCasts.cpp - One call for casts of many small tensors ----------===//
//
// A model that multiplies in a narrow type casts every parameter once per step,
// and every gradient back. On a GPU the launch of a small one takes longer than
// its elements; one call over a list of them is a few launches.
//
// Large tensors keep calls of their own: what they are cast from is freed as
// soon as that is done, one by one.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Schedule/DenseCalls.h"
#include "passes/Schedule/Schedule.h"
#include "llvm/ADT/MapVector.h"

namespace sextant::passes {
#define GEN_PASS_DEF_MERGECASTS
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Elements that a GPU casts while it launches a kernel.
static constexpr int64_t mostElements = 1 << 20;

static exec::DenseOp getCast(Operation &op) {
  auto dense = dyn_cast<exec::DenseOp>(op);
  return dense && dense.getOp() == "aten::_to_copy" ? dense : exec::DenseOp();
}

static RankedTensorType getTarget(exec::DenseOp cast) {
  return mlir::cast<RankedTensorType>(cast.getResult(0).getType());
}

static Type getSourceElement(exec::DenseOp cast) {
  return getElementTypeOrSelf(cast.getOperand(0).getType());
}

/// Of floats: of other types ATen may have no kernel for lists on a GPU.
static bool isSmall(exec::DenseOp cast) {
  RankedTensorType type = getTarget(cast);
  return isa<FloatType>(getSourceElement(cast)) &&
         isa<FloatType>(type.getElementType()) && type.hasStaticShape() &&
         type.getNumElements() <= mostElements;
}

namespace {
/// Casts with nothing between them that reads or writes elements.
class Run {
public:
  /// Whether the cast needs what another one of the run makes.
  bool makes(Value source) const { return made.contains(source); }
  void add(exec::DenseOp cast) {
    groups[{getSourceElement(cast), getTarget(cast).getElementType()}]
        .push_back(cast);
    made.insert(cast.getResult(0));
  }
  /// Makes one call of those that have the same types; gives how many fewer
  /// there are.
  unsigned merge() const {
    unsigned fewer = 0;
    for (const auto &[types, casts] : groups)
      if (casts.size() > 1) {
        mergeAll(casts);
        fewer += casts.size() - 1;
      }
    return fewer;
  }

private:
  static void mergeAll(ArrayRef<exec::DenseOp> casts);

  llvm::MapVector<std::pair<Type, Type>, SmallVector<exec::DenseOp>> groups;
  DenseSet<Value> made;
};
} // namespace

void Run::mergeAll(ArrayRef<exec::DenseOp> casts) {
  SmallVector<Value> targets, sources;
  for (exec::DenseOp cast : casts) {
    OpBuilder builder(cast);
    targets.push_back(exec::AllocOp::create(
        builder, cast.getLoc(), getTarget(cast), ValueRange(), /*zero=*/false));
    sources.push_back(cast.getOperand(0));
  }
  exec::DenseOp last = casts.back();
  OpBuilder builder(last);
  nn::AtenArguments call(builder);
  call.tensors(targets);
  call.tensors(sources);
  call.boolean(false); // non_blocking
  createDense(builder, last.getLoc(), "aten::_foreach_copy_", call.get(), {});
  for (auto [cast, target] : llvm::zip_equal(casts, targets)) {
    cast->getResult(0).replaceAllUsesWith(target);
    cast->erase();
  }
}

static unsigned mergeIn(Block &block) {
  SmallVector<Run> runs(1);
  for (Operation &op : block) {
    if (exec::DenseOp cast = getCast(op)) {
      if (runs.back().makes(cast.getOperand(0)))
        runs.emplace_back();
      if (isSmall(cast))
        runs.back().add(cast);
    } else if (!isMemoryEffectFree(&op) &&
               !isa<exec::AllocOp, exec::CheckOp>(op)) {
      runs.emplace_back();
    }
  }
  unsigned fewer = 0;
  for (const Run &run : runs)
    fewer += run.merge();
  return fewer;
}

namespace {
/// Goes through one function after the other.
struct MergeCasts : passes::impl::MergeCastsBase<MergeCasts> {
  using MergeCastsBase::MergeCastsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      unsigned merged = 0;
      for (Block &block : function.getBody())
        merged += mergeIn(block);
      numMerged += merged;
      if (merged > 0)
        remark::passed(
            function.getLoc(),
            remark::RemarkOpts::name("merged").category(getArgument()))
            << remark::metric("Casts", merged);
    }
  }
};
} // namespace
