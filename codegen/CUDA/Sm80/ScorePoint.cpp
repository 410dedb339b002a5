//===- ScorePoint.cpp - One score of a thread -----------------------------===//

#include "codegen/CUDA/Sm80/ScorePoint.h"
#include "codegen/Payload/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ScorePoint::ScorePoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                       const KernelPlan &plan, const SiteOperands &operands)
    : TilePoint(thread.kernel, arguments, plan, operands,
                pos::RowOperand::query),
      thread(thread),
      queryLength(kernel.toI32(arguments.getSize(operands.query, 2))),
      keyLength(kernel.toI32(arguments.getSize(operands.key, 2))),
      shift(kernel.toI32(operands.getQueryShift(kernel, arguments))) {
  setOffsets(Offsets::InPlace);
}

void ScorePoint::standAt(Value ofQuery, Value ofKey) {
  query = thread.min(ofQuery, thread.add(queryLength, -1));
  key = thread.min(ofKey, thread.add(keyLength, -1));
}

Value ScorePoint::tensorRow(OpBuilder &, pos::Side side) {
  return side == pos::Side::key ? key : query;
}

Value ScorePoint::index(OpBuilder &, pos::Side side) {
  return side == pos::Side::key ? key : thread.add(query, shift);
}

Value ScorePoint::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  return headPlace.getCoord(side, kernel.fromI32(tensorRow(builder, side)),
                            axis);
}

Value ScorePoint::loadHoisted(const Hoisted &, unsigned, Value) {
  llvm_unreachable("a value over offsets uses none of rows");
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

bool ScorePoint::wantsGradient(pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op);
  return hoisted && hoisted->wantsGradient;
}

bool ScorePoint::wantsGradient(BlockArgument param) {
  return plan.paramWantsGradient[param.getArgNumber()];
}

void ScorePoint::addToHoisted(OpBuilder &, pos::HoistOp op, Value cotangent) {
  const Hoisted *hoisted = plan.find(op);
  for (auto &[known, sum] : cotangents)
    if (known == hoisted) {
      sum = kernel.addF(sum, cotangent);
      return;
    }
  cotangents.push_back({hoisted, cotangent});
}

void ScorePoint::addToRead(OpBuilder &, BlockArgument param, ValueRange indices,
                           Value cotangent) {
  (*paramSums)(param, indices, cotangent);
}

SmallVector<std::pair<const Hoisted *, Value>>
ScorePoint::pullBack(const Hoisted &hoisted, Value cotangent, ParamSums sums) {
  cotangents.clear();
  paramSums = sums;
  pos::HoistOp op = hoisted.op;
  kernel.check(pullbackHoist(kernel.builder, op, cotangent, *this));
  paramSums.reset();
  return std::move(cotangents);
}
