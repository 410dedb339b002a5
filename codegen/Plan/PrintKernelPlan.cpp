//===- PrintKernelPlan.cpp - What kernels are given, as text --------------===//
//
// One line per fact, in the order in which a kernel meets them: rows, score,
// mask, output, then what is made once per call and the gradients.
//
//===----------------------------------------------------------------------===//

#include "codegen/Plan/PrintKernelPlan.h"
#include "passes/Verify/Stages.h"
#include "llvm/Support/raw_ostream.h"

namespace sextant::codegen {
#define GEN_PASS_DEF_PRINTKERNELPLAN
#include "codegen/Plan/PrintKernelPlan.h.inc"
} // namespace sextant::codegen

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
class PlanPrinter {
public:
  PlanPrinter(raw_ostream &stream, const KernelPlan &plan)
      : stream(stream), plan(plan) {}

  void print();

private:
  raw_ostream &line() { return stream << "  "; }
  void printRows(StringRef operand, ArrayRef<RowMap> maps);
  void printTurn(const RowTurn &turn);
  void printScore();
  void printTable(const RowTable &table);
  void printProducts();
  void printHoisted(size_t number, const Hoisted &hoisted);
  void printGradients();

  raw_ostream &stream;
  const KernelPlan &plan;
};
} // namespace

static StringRef getShares(bool perBatch, bool perHead) {
  if (perBatch)
    return perHead ? "per batch and head" : "per batch";
  return perHead ? "per head" : "shared";
}

void PlanPrinter::printRows(StringRef operand, ArrayRef<RowMap> maps) {
  for (const RowMap &map : maps)
    line() << "rows of " << operand << ": "
           << pos::stringifyGrouping(map.grouping) << ", lanes " << map.begin
           << " to " << map.end << "\n";
}

void PlanPrinter::printTurn(const RowTurn &turn) {
  line() << "turn of ";
  llvm::interleaveComma(turn.operands, stream, [&](pos::RowOperand operand) {
    stream << pos::stringifyRowOperand(operand);
  });
  stream << ": " << turn.blocks << " blocks of " << turn.size << ", "
         << getShares(turn.perBatch, turn.perHead) << "\n";
}

void PlanPrinter::printScore() {
  if (!plan.score)
    return;
  line() << "score: ";
  if (plan.scoreHeads)
    stream << "of " << plan.scoreHeads << " heads at once\n";
  else
    stream << (plan.isAdditive ? "adds to the product\n"
                               : "maps the product\n");
}

void PlanPrinter::printTable(const RowTable &table) {
  stream << (table.columns ? "columns" : "rows") << " of parameter "
         << table.param;
  if (table.addend)
    stream << ", plus parameter " << *table.addend;
}

void PlanPrinter::printProducts() {
  for (auto [table, indices] :
       llvm::zip_equal(plan.rowTables, plan.offsetIndices)) {
    line() << "products of the " << pos::stringifySide(table.side) << ": ";
    printTable(table);
    stream << (indices.empty() ? "\n" : ", at functions of the offset\n");
  }
  for (const OffsetProduct &product : plan.offsetProducts) {
    line() << "product of the " << pos::stringifySide(product.table.side)
           << " with rows of offsets: ";
    printTable(product.table);
    stream << (!product.index      ? ", summed with factors\n"
               : product.isClipped ? ", taken at a clipped index\n"
                                   : ", taken at an index\n");
  }
  for (auto [number, scan] : llvm::enumerate(plan.scans)) {
    pos::ScanOp op = scan;
    line() << "scan: " << pos::stringifyDirection(op.getDirection()) << ", "
           << plan.scanLevels[number] << " follow on it\n";
  }
  for (const PiecewiseLinearFunction &function : plan.hinges) {
    pos::HingesOp op = function.op;
    line() << "hinges: " << op.getNumUnits() << " units, used "
           << llvm::count_if(
                  plan.hingeSums,
                  [&](pos::HingeSumOp sum) { return sum.getUnits() == op; })
           << " times" << (function.wantsGradient ? ", gradient\n" : "\n");
  }
}

void PlanPrinter::printHoisted(size_t number, const Hoisted &hoisted) {
  pos::HoistOp op = hoisted.op;
  line() << "hoisted " << number << ": "
         << passes::stringifyHoistForm(hoisted.form) << " over [";
  llvm::interleaveComma(op.getAxes().getAsRange<pos::AxisAttr>(), stream,
                        [&](pos::AxisAttr axis) {
                          stream << pos::stringifyAxis(axis.getValue());
                        });
  stream << "], " << op.getType() << ", of "
         << pos::stringifyRowOperand(hoisted.operand) << ", "
         << getShares(hoisted.perBatch, hoisted.perHead);
  if (hoisted.param)
    stream << ", parameter " << *hoisted.param << " in place"
           << (hoisted.isAtIndex ? " at the index" : "");
  else if (hoisted.isEmittedInPlace && hoisted.form != HoistForm::HeadScalar)
    stream << ", computed where it is used";
  stream << (hoisted.wantsGradient ? ", gradient\n" : "\n");
}

void PlanPrinter::printGradients() {
  static constexpr StringLiteral places[] = {
      "outside tiles", "outside tiles, or in them without a table", "in tiles"};
  for (auto [number, isWanted] : llvm::enumerate(plan.paramWantsGradient)) {
    if (!isWanted)
      continue;
    const TileReads &reads = plan.tileReads[number];
    raw_ostream &stream = line();
    stream << "gradient of parameter " << number << ": summed "
           << places[static_cast<unsigned>(reads.when)];
    if (reads.batchDim)
      stream << ", apart by batch";
    if (reads.headDim)
      stream << ", apart by head";
    if (reads.areOfPairs())
      stream << ", apart by query and key";
    stream << (reads.alongKeys ? ", keys in a row\n" : "\n");
  }
}

void PlanPrinter::print() {
  pos::SitesOwnerInterface owner = plan.owner;
  stream << "plan of '" << owner->getName() << "':\n";
  if (plan.hasPositions)
    line() << "positions: given\n";
  llvm::for_each(plan.turns, [&](const RowTurn &turn) { printTurn(turn); });
  printRows("query", plan.queryRows);
  printRows("key", plan.keyRows);
  printRows("value", plan.valueRows);
  printRows("input", plan.inputRows);
  if (int64_t count = plan.countColumns())
    line() << "columns: " << count << "\n";
  printScore();
  printProducts();
  if (plan.mask)
    line() << "mask\n";
  if (const Hoisted *term = plan.findRowTerm())
    line() << "row term: hoisted " << term - plan.hoisted.data() << "\n";
  for (pos::WeightedRowsOp rows : plan.weightedRows)
    line() << "weighted rows: parameter "
           << cast<BlockArgument>(rows.getTable()).getArgNumber() << "\n";
  for (auto [number, hoisted] : llvm::enumerate(plan.hoisted))
    printHoisted(number, hoisted);
  printGradients();
}

void codegen::printKernelPlan(raw_ostream &stream, const KernelPlan &plan) {
  PlanPrinter(stream, plan).print();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct PrintKernelPlan
    : public codegen::impl::PrintKernelPlanBase<PrintKernelPlan> {
  using PrintKernelPlanBase::PrintKernelPlanBase;

  void runOnOperation() override {
    if (failed(passes::requireStage(getOperation(), passes::Stage::Hoisted,
                                    getArgument())))
      return signalPassFailure();
    WalkResult result = getOperation().walk([](pos::SitesOwnerInterface owner) {
      FailureOr<KernelPlan> plan = planKernel(owner);
      if (failed(plan))
        return WalkResult::interrupt();
      printKernelPlan(llvm::outs(), *plan);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    llvm::outs().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
