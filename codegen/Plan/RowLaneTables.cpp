//===- RowLaneTables.cpp - Values over rows and lanes ---------------------===//

#include "codegen/Plan/RowLaneTables.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

bool codegen::isIndexOfRow(Value index) {
  auto clipped = index.getDefiningOp<arith::MaxSIOp>();
  if (!clipped || !matchPattern(clipped.getRhs(), m_Zero()))
    return false;
  auto own = clipped.getLhs().getDefiningOp<pos::IndexOp>();
  return own && own.getSide() == pos::Side::self;
}

std::optional<TableParam> codegen::findTableParam(const Hoisted &entry,
                                                  Block &sites) {
  pos::HoistOp hoist = entry.op;
  if (entry.form != HoistForm::RowLaneTable ||
      llvm::any_of(hoist->getUsers(), [](Operation *user) {
        return user->getParentOfType<pos::HoistOp>();
      }))
    return std::nullopt;
  auto read = hoist.getBody()
                  .front()
                  .getTerminator()
                  ->getOperand(0)
                  .getDefiningOp<pos::ReadOp>();
  if (!read || read.getIndices().size() != 4 || !read.getType().isF32())
    return std::nullopt;
  auto param = dyn_cast<BlockArgument>(read.getTensor());
  if (!param || param.getOwner() != &sites)
    return std::nullopt;
  auto indices = read.getIndices();
  auto isOf = [](Value index, bool varies, auto isAxis) {
    Operation *op = index.getDefiningOp();
    return varies ? op && isAxis(op) : matchPattern(index, m_Zero());
  };
  bool isWhole =
      isOf(indices[0], entry.perBatch, llvm::IsaPred<pos::BatchOp>) &&
      isOf(indices[1], entry.perHead, llvm::IsaPred<pos::HeadOp>) &&
      isOf(indices[3], true, llvm::IsaPred<pos::LaneOp>);
  bool isAtIndex = isIndexOfRow(indices[2]);
  if (!isWhole ||
      !(isAtIndex || isOf(indices[2], true, llvm::IsaPred<pos::TensorRowOp>)))
    return std::nullopt;
  return TableParam{param.getArgNumber(), isAtIndex};
}

/// Whether these are the row maps of an operand: of attention, or of what rows
/// are mapped outside of it.
static bool isOfOperand(const SmallVector<RowMap> &maps, const KernelPlan &plan,
                        pos::RowOperand operand) {
  if (&maps == &plan.inputRows)
    return true;
  switch (operand) {
  case pos::RowOperand::query:
    return &maps == &plan.queryRows;
  case pos::RowOperand::key:
    return &maps == &plan.keyRows;
  default:
    return &maps == &plan.valueRows;
  }
}

static bool uses(pos::RowsOp rows, pos::HoistOp hoist) {
  return llvm::any_of(hoist->getUsers(),
                      [&](Operation *user) { return rows->isAncestor(user); });
}

int64_t codegen::countTableColumns(const KernelPlan &plan,
                                   const Hoisted &entry) {
  int64_t groups = plan.countColumns(entry.op);
  if (groups > 0)
    return groups;
  for (const SmallVector<RowMap> *maps :
       {&plan.queryRows, &plan.keyRows, &plan.valueRows, &plan.inputRows})
    for (const RowMap &map : *maps)
      // A parameter has the lanes that are read, and maybe no more.
      if (!entry.param ||
          (isOfOperand(*maps, plan, entry.operand) && uses(map.op, entry.op)))
        groups = std::max(groups, map.getNumGroups());
  return groups;
}
