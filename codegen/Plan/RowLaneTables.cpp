//===- RowLaneTables.cpp - Values over rows and lanes ---------------------===//

#include "codegen/Plan/RowLaneTables.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether an index is that of the row at hand, or 0 where that is negative.
static bool isClippedIndex(Value index) {
  auto clipped = index.getDefiningOp<arith::MaxSIOp>();
  if (!clipped || !matchPattern(clipped.getRhs(), m_Zero()))
    return false;
  auto own = clipped.getLhs().getDefiningOp<pos::IndexOp>();
  return own && own.getSide() == pos::Side::self;
}

bool codegen::isOfRow(Value index) {
  Operation *maker = index.getDefiningOp();
  return maker &&
         (isa<pos::IndexOp, pos::TensorRowOp>(maker) || isClippedIndex(index));
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
  bool isAtIndex = isClippedIndex(indices[2]);
  if (!isWhole ||
      !(isAtIndex || isOf(indices[2], true, llvm::IsaPred<pos::TensorRowOp>)))
    return std::nullopt;
  return TableParam{param.getArgNumber(), isAtIndex};
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
  ArrayRef<RowMap> own = getRowMaps(plan, entry.operand);
  for (ArrayRef<RowMap> maps :
       {ArrayRef(plan.queryRows), ArrayRef(plan.keyRows),
        ArrayRef(plan.valueRows), ArrayRef(plan.inputRows)}) {
    bool isOfOperand =
        maps.data() == own.data() || maps.data() == plan.inputRows.data();
    for (const RowMap &map : maps)
      // A parameter has the lanes that are read, and maybe no more.
      if (!entry.param || (isOfOperand && uses(map.op, entry.op)))
        groups = std::max(groups, map.getNumGroups());
  }
  return groups;
}
