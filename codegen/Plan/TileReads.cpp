//===- TileReads.cpp - What tiles read of parameters themselves -----------===//

#include "codegen/Plan/TileReads.h"
#include "codegen/Plan/KernelPlan.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Under given positions a value over offsets may be computed in the tile.
static TileReads::When getTime(const KernelPlan &plan, BlockArgument param) {
  TileReads::When when = TileReads::never;
  for (Operation *user : param.getUsers()) {
    if (plan.score && plan.score->isProperAncestor(user) &&
        !isa<pos::RowDotOpInterface>(user))
      return TileReads::always;
    auto hoist = user->getParentOfType<pos::HoistOp>();
    const Hoisted *hoisted = hoist ? plan.find(hoist) : nullptr;
    if (plan.hasPositions && hoisted && hoisted->wantsGradient &&
        hoisted->form == HoistForm::OffsetTable)
      when = TileReads::rarely;
  }
  return when;
}

/// Whether a value is the index or the tensor's row of a side: no two rows of
/// that side have the same.
static bool isRowOf(pos::Side side, Value index) {
  if (auto op = index.getDefiningOp<pos::IndexOp>())
    return op.getSide() == side;
  auto row = index.getDefiningOp<pos::TensorRowOp>();
  return row && row.getSide() == side;
}

TileReads::Dim codegen::findDim(ArrayRef<pos::ReadOp> reads,
                                llvm::function_ref<bool(Value)> isSuch) {
  pos::ReadOp first = reads.front();
  for (unsigned dim = 0, rank = first.getIndices().size(); dim < rank; ++dim)
    if (llvm::all_of(reads, [&](pos::ReadOp read) {
          return isSuch(read.getIndices()[dim]);
        }))
      return dim;
  return std::nullopt;
}

TileReads codegen::getTileReads(const KernelPlan &plan, BlockArgument param) {
  TileReads reads;
  reads.when = getTime(plan, param);
  SmallVector<pos::ReadOp> ops;
  for (Operation *user : param.getUsers())
    if (auto read = dyn_cast<pos::ReadOp>(user))
      ops.push_back(read);
    else
      return reads;
  if (reads.when != TileReads::always)
    return reads;
  reads.batchDim = findDim(ops, [](Value index) {
    return index.getDefiningOp<pos::BatchOp>() != nullptr;
  });
  reads.headDim = findDim(ops, [](Value index) {
    return index.getDefiningOp<pos::HeadOp>() != nullptr;
  });
  for (auto [side, dim] : {std::pair(pos::Side::query, &reads.queryDim),
                           std::pair(pos::Side::key, &reads.keyDim)})
    *dim = findDim(ops, [&](Value index) { return isRowOf(side, index); });
  reads.alongKeys =
      reads.keyDim && *reads.keyDim + 1 == ops.front().getIndices().size();
  return reads;
}
