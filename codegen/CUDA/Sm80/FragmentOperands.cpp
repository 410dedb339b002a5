//===- FragmentOperands.cpp - What kernels on tensor cores read -----------===//

#include "codegen/CUDA/Sm80/BackwardOperands.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

bool codegen::isUsedByScores(const KernelPlan &plan, const Hoisted &hoisted) {
  auto isInside = [](auto site, Operation *user) {
    return site && site->isProperAncestor(user);
  };
  pos::HoistOp op = hoisted.op;
  if (hoisted.operand != pos::RowOperand::query)
    return false;
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return isInside(plan.score, user) || isInside(plan.mask, user);
  });
}

bool codegen::usesOffsetsOfPositions(const KernelPlan &plan) {
  return plan.hasPositions &&
         llvm::any_of(plan.hoisted, [&](const Hoisted &hoisted) {
           return hoisted.form == HoistForm::OffsetTable &&
                  isUsedByScores(plan, hoisted);
         });
}

SumSinks::SumSinks(const KernelPlan &plan) {
  for (const Hoisted &hoisted : plan.hoisted) {
    if (!hoisted.wantsGradient || !isUsedByScores(plan, hoisted))
      continue;
    switch (hoisted.form) {
    case HoistForm::OffsetTable:
      offsets.push_back(&hoisted);
      break;
    case HoistForm::QueryVector:
      queries.push_back(&hoisted);
      break;
    case HoistForm::KeyVector:
      keys.push_back(&hoisted);
      break;
    case HoistForm::HeadScalar:
      scalars.push_back(&hoisted);
      break;
    case HoistForm::RowLaneTable:
      llvm_unreachable("a score payload uses no table of a row map");
    }
  }
}

SumWords SumSinks::getWords(const KernelPlan &plan) const {
  SumWords words;
  words.diagonals = offsets.size();
  words.columns = queries.size();
  words.scalars = scalars.size();
  // The cotangent of what a payload adds is that of the score. Others differ,
  // and what is not a sum is pulled back from its argument.
  int64_t sinks =
      offsets.size() + queries.size() + keys.size() + scalars.size();
  words.numbers = std::max<int64_t>(sinks - 1, 0);
  if (!plan.isAdditive)
    ++words.numbers;
  if (!plan.hingeSums.empty())
    words.numbers += 2;
  return words;
}

TileWindows::TileWindows(const KernelPlan &plan, pos::Side columnSide) {
  for (const Hoisted &hoisted : plan.hoisted) {
    pos::HoistOp op = hoisted.op;
    Type type = op->getResult(0).getType();
    if (hoisted.isEmittedInPlace || !isUsedByScores(plan, hoisted) ||
        type.getIntOrFloatBitWidth() != 32)
      continue;
    // Offsets of given positions have gaps.
    if (hoisted.form == HoistForm::OffsetTable && !plan.hasPositions)
      offsets.push_back(&hoisted);
    else if (hoisted.form == getVectorForm(columnSide))
      columns.push_back(&hoisted);
  }
}
