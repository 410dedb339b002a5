//===- RowValues.cpp - Values over rows that need no table ----------------===//

#include "codegen/Tables/RowValues.h"
#include "codegen/Tables/HoistGroup.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tables/TablePoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether an op uses a value that has a table, or may have one.
static bool usesTable(const KernelPlan &plan, pos::HoistOp hoist,
                      pos::RowOperand operand) {
  return hoist
      ->walk([&](Operation *op) {
        for (Value value : op->getOperands()) {
          auto used = value.getDefiningOp<pos::HoistOp>();
          if (used && (!plan.find(used, operand)->isEmittedInPlace ||
                       usesTable(plan, used, operand)))
            return WalkResult::interrupt();
        }
        return WalkResult::advance();
      })
      .wasInterrupted();
}

static bool isRowValue(const KernelPlan &plan, const Hoisted &entry) {
  pos::HoistOp op = entry.op;
  return entry.form == HoistForm::RowLaneTable && !entry.perBatch &&
         !entry.perHead && !entry.extent && !entry.param &&
         !entry.isEmittedInPlace && !getRunningSum(entry) &&
         llvm::all_of(op->getUsers(),
                      [](Operation *user) {
                        return user->getParentOfType<pos::RowsOp>();
                      }) &&
         !usesTable(plan, op, entry.operand);
}

SmallVector<unsigned> codegen::findRowValues(const KernelPlan &plan,
                                             pos::RowOperand operand) {
  SmallVector<unsigned> numbers;
  for (auto [number, entry] : llvm::enumerate(plan.hoisted))
    if (entry.operand == operand && isRowValue(plan, entry))
      numbers.push_back(number);
  return numbers;
}

RowValues::RowValues(const Lowering &lowering, const HoistTables &tables,
                     pos::RowOperand operand, LaunchOperands &operands)
    : lowering(lowering), options(tables.options) {
  const KernelPlan &plan = lowering.plan;
  SmallVector<unsigned> wanted = findRowValues(plan, operand);
  for (SmallVector<unsigned> &numbers : groupHoists(plan)) {
    llvm::erase_if(numbers, [&](unsigned number) {
      return tables.buffers[number] || !llvm::is_contained(wanted, number);
    });
    if (numbers.empty())
      continue;
    Group &group = groups.emplace_back();
    group.entry = &plan.hoisted[numbers.front()];
    group.layout = addHoistReads(lowering, tables, numbers, operands);
    SmallVector<pos::HoistOp> hoists;
    for (unsigned number : numbers) {
      hoists.push_back(plan.hoisted[number].op);
      group.members.push_back({hoists.back()});
    }
    group.merged = mergeBodies(hoists);
  }
}

RowValues::Vectors RowValues::emit(KernelBuilder &kernel,
                                   ArgumentBlock &arguments, Index row) const {
  Vectors vectors;
  Type f64 = kernel.f64;
  // The kernel is that of the launch.
  KernelOperands none;
  for (const Group &group : groups) {
    HoistLaunch source{lowering,     *group.entry,  options,
                       group.layout, group.members, none};
    TablePoint point(kernel, arguments, source, cast<FloatType>(f64));
    Block &payload = (*group.merged)->getRegion(0).front();
    int64_t columns = countTableColumns(lowering.plan, *group.entry);
    for (int64_t first = 0; first < columns; first += kernel.width()) {
      point.moveTo(0, 0, row, first, std::min(kernel.width(), columns - first));
      for (auto [member, value] : llvm::zip_equal(
               group.members, callPayload(kernel, payload, {}, point))) {
        value = kernel.broadcast(value);
        bool isWide = getElementTypeOrSelf(value.getType()).isF64();
        vectors[{member.op, first}] = isWide ? kernel.narrow(value) : value;
      }
    }
  }
  return vectors;
}
