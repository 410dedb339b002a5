//===- FuseRowGathers.cpp - Takes rows of a table where they are mapped ---===//
//
// A row map that alone uses the rows of an embedding takes the table and the
// indices instead. Rows with another use stay in memory, so such maps are left
// alone.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/Remarks.h"
#include "passes/Schedule/Schedule.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sextant::passes {
#define GEN_PASS_DEF_FUSEROWGATHERS
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

/// Whether `use` is the rows that a map works on. A second use of the same rows
/// by the same map, as the gradient of its result, needs them in memory.
static bool isMapped(OpOperand &use) {
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case<pos::MapRowsOp, pos::MapRowsBackwardOp>(
          [&](auto map) { return &map.getInputMutable() == &use; })
      .Default(false);
}

/// Gives the map of `use` the table and the indices instead of the rows.
static void takeRows(OpOperand &use, nn::EmbeddingOp gather) {
  auto fuse = [&](auto map) {
    map.getIndicesMutable().assign(gather.getIndices());
    map.getInputMutable().assign(gather.getWeight());
  };
  if (auto map = dyn_cast<pos::MapRowsOp>(use.getOwner()))
    return fuse(map);
  fuse(cast<pos::MapRowsBackwardOp>(use.getOwner()));
}

namespace {
/// Fuses each embedding whose rows have no other use.
class FuseRowGathers : public passes::impl::FuseRowGathersBase<FuseRowGathers> {
public:
  using FuseRowGathersBase::FuseRowGathersBase;

  void runOnOperation() override {
    SmallVector<nn::EmbeddingOp> gathers;
    getOperation().walk([&](nn::EmbeddingOp op) { gathers.push_back(op); });
    unsigned fused = 0;
    for (nn::EmbeddingOp gather : gathers)
      fused += fuse(gather);
    numFused += fused;
    remark::passed(getOperation().getLoc(),
                   remark::RemarkOpts::name("fused").category(getArgument()))
        << remark::metric("Maps", fused);
  }

private:
  /// Gives the number of maps that take their rows themselves now.
  static unsigned fuse(nn::EmbeddingOp gather) {
    Value rows = gather->getResult(0);
    if (cast<RankedTensorType>(rows.getType()).getRank() != 3 ||
        rows.use_empty() || !llvm::all_of(rows.getUses(), isMapped))
      return 0;
    unsigned fused = 0;
    for (OpOperand &use : llvm::make_early_inc_range(rows.getUses())) {
      takeRows(use, gather);
      ++fused;
    }
    gather->erase();
    return fused;
  }
};
} // namespace
