//===- AllHeadsBackwardTile.cpp - A backward's tile of all heads ----------===//

#include "codegen/CUDA/Sm80/AllHeadsBackwardTile.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

AllHeadsSums::AllHeadsSums(const KernelPlan &plan, int64_t points)
    : warps(points / warpLanes), ofPoints(points) {
  pos::ScoreOp score = plan.score;
  auto isWanted = [&](Value param) {
    return plan.paramWantsGradient[cast<BlockArgument>(param).getArgNumber()];
  };
  auto addSum = [&](Value owner, int64_t count) {
    sums.push_back({owner, elements, count});
    elements += count;
  };
  for (const Hoisted &hoisted : plan.hoisted) {
    if (!hoisted.wantsGradient || !isUsedByScores(plan, hoisted))
      continue;
    int64_t rows = countRowsOfPoint(hoisted, plan.scoreHeads);
    if (hoisted.form == HoistForm::HeadScalar) {
      addSum(hoisted.op->getResult(0), rows);
    } else if (hoisted.form == HoistForm::OffsetTable) {
      tables.push_back({&hoisted, tableRows, rows});
      tableRows += rows;
    }
  }
  auto keepRows = [&](int64_t count) {
    int64_t first = keptRows;
    keptRows += llvm::alignTo(count, fragmentRows);
    return first;
  };
  score.getBody().walk([&](Operation *op) {
    if (auto contract = dyn_cast<pos::ContractOp>(op)) {
      if (!isWanted(contract.getMatrix()))
        return;
      int64_t rows = getVectorExtent(contract.getResult());
      int64_t columns = getVectorExtent(contract.getVector());
      int64_t results = keepRows(rows), operands = keepRows(columns);
      matrices.push_back({contract, results, operands, rows, columns});
    } else if (auto vector = dyn_cast<pos::ElementsOp>(op)) {
      if (isWanted(vector.getParam()))
        addSum(vector.getResult(), getVectorExtent(vector.getResult()));
    }
  });
}

AllHeadsBackwardTile::AllHeadsBackwardTile(const KernelPlan &plan,
                                           int64_t headDim,
                                           ArrayRef<int64_t> valueDims,
                                           int64_t sharedBytes)
    : AllHeadsTile(plan.scoreHeads, headDim, valueDims),
      sums(plan, ofHead.countThreads()) {
  ofHead.rowSide = pos::Side::key;
  while (stages > 0 && getBlock().sharedBytes > sharedBytes)
    --stages;
}

int64_t AllHeadsBackwardTile::countSums() const {
  int64_t columns = ofHead.query.padded;
  for (const SharedRowShape &shape : ofHead.values)
    columns += shape.padded;
  return countRounds() * columns / 2;
}
