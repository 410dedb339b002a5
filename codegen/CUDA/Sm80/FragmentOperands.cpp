//===- FragmentOperands.cpp - What kernels on tensor cores read -----------===//

#include "codegen/CUDA/Sm80/BackwardOperands.h"
#include "codegen/CUDA/Sm80/FragmentScores.h"
#include "codegen/Rows/OperandRows.h"
#include "dialects/Exec/IR/Exec.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Rows of a side that are counted in 32 bits: the number of the row behind the
/// last one of the 32 tiles that are looked at together is one, too.
static constexpr int64_t mostRows = INT32_MAX - (1 << 16);

FloatType codegen::getRowElement(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  return cast<FloatType>(
      getElementTypeOrSelf(getOwnerOperands(owner).query.getType()));
}

int64_t codegen::countHeadElements(const KernelPlan &plan) {
  pos::SitesOwnerInterface owner = plan.owner;
  return countOperandElements(plan, pos::RowOperand::query,
                              getOwnerOperands(owner).query, warpLanes);
}

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

void codegen::checkLengths(const Lowering &lowering) {
  OpBuilder &builder = lowering.builder;
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  Value most =
      arith::ConstantIndexOp::create(builder, lowering.getLoc(), mostRows);
  for (auto [rows, name] :
       {std::pair{owner.query, "query"}, std::pair{owner.key, "key"}}) {
    if (int64_t length = cast<RankedTensorType>(rows.getType()).getDimSize(2);
        !ShapedType::isDynamic(length) && length <= mostRows)
      continue;
    exec::CheckOp::create(
        builder, lowering.getLoc(), lowering.getDim(rows, 2),
        exec::Predicate::at_most, most,
        ("'" + lowering.getOp()->getName().getStringRef() +
         "' on tensor cores (sm_80 and later) counts rows in 32 bits: cut the "
         "sequence; the length of " +
         name + " and the largest one")
            .str());
  }
}

SumSinks::SumSinks(const KernelPlan &plan) {
  for (const Hoisted &hoisted : plan.hoisted) {
    if (!hoisted.wantsGradient || !isUsedByScores(plan, hoisted))
      continue;
    switch (hoisted.form) {
    case HoistForm::OffsetTable:
      (plan.hasPositions ? ofPositions : offsets).push_back(&hoisted);
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

SumWords SumSinks::getWords(const KernelPlan &plan, bool isHingeProduct) const {
  SumWords words;
  words.diagonals = offsets.size();
  words.columns = queries.size();
  words.scalars = scalars.size();
  words.hasGroups = !ofPositions.empty();
  if (isHingeProduct)
    return words;
  // The cotangent of what a payload adds is that of the score. Others differ,
  // and what is not a sum is pulled back from its argument.
  int64_t sinks = ofPositions.size() + offsets.size() + queries.size() +
                  keys.size() + scalars.size();
  words.numbers = std::max<int64_t>(sinks - 1, 0);
  if (!plan.isAdditive)
    ++words.numbers;
  if (!plan.hingeSums.empty())
    words.numbers += 2;
  return words;
}

TileWindows::TileWindows(const KernelPlan &plan, pos::Side columnSide) {
  if (plan.scoreHeads)
    return;
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

/// Of a function of hinges whose segments have numbers of 15 bits.
static constexpr int64_t mostUnits = INT16_MAX;

/// Of two operands in either order: the one that is `first`, and the other.
static Value getOther(Operation *op, Value first) {
  return op->getOperand(0) == first ? op->getOperand(1) : op->getOperand(0);
}

std::optional<HingeProduct> HingeProduct::find(const KernelPlan &plan,
                                               const TileWindows &windows) {
  // What is added to a product of rows is to be in its units.
  if (!plan.isAdditive || plan.hingeSums.size() != 1 ||
      FragmentForm(plan).productFactor != 1.0)
    return std::nullopt;
  HingeProduct found{plan.hingeSums.front()};
  pos::HingesOp function = plan.hinges[plan.findHinges(found.op)].op;
  if (function.getNumUnits() > mostUnits)
    return std::nullopt;
  Block &payload = pos::ScoreOp(plan.score).getBody().front();
  auto sum =
      payload.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  auto product = found.op.getValue().getDefiningOp<arith::MulFOp>();
  if (!sum || !product ||
      !llvm::is_contained(sum->getOperands(), payload.getArgument(0)) ||
      getOther(sum, payload.getArgument(0)) != found.op.getResult())
    return std::nullopt;
  for (Value factor : product->getOperands()) {
    auto op = factor.getDefiningOp<pos::HoistOp>();
    const Hoisted *hoisted = op ? plan.find(op) : nullptr;
    if (!hoisted || hoisted->isEmittedInPlace || !factor.getType().isF32())
      return std::nullopt;
    if (llvm::is_contained(windows.offsets, hoisted))
      found.ofOffsets = hoisted;
    else if (hoisted->form == HoistForm::QueryVector)
      found.ofQueries = hoisted;
  }
  if (!found.ofOffsets || !found.ofQueries)
    return std::nullopt;
  return found;
}

void FragmentOperands::read(const Lowering &lowering, const HoistTables &tables,
                            LaunchOperands &operands) {
  OwnerOperands owner = getOwnerOperands(plan.owner);
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  auto readRows = [&](pos::RowOperand operand, Value rows, const Twine &name) {
    Value mapped = launchOperandRows(lowering, tables, operand, rows,
                                     ("rows_of_" + name).str());
    return operands.read(mapped);
  };
  query = readRows(pos::RowOperand::query, owner.query, "query");
  key = readRows(pos::RowOperand::key, owner.key, "key");
  for (auto [number, value] : llvm::enumerate(owner.values))
    values.push_back(
        readRows(pos::RowOperand::value, value, "value" + Twine(number)));
  sites.append(plan, tables, operands.layout, operands.reads);
}
