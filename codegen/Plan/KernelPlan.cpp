//===- KernelPlan.cpp - What a kernel needs to know of an attention -------===//

#include "codegen/Plan/KernelPlan.h"
#include "codegen/Plan/GradientPaths.h"
#include "codegen/Plan/RowLaneTables.h"
#include "codegen/Plan/RowPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Analysis/ScoreTerms.h"
#include "passes/Encoding/Slices.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Axis;
using pos::AxisSet;
using pos::RowOperand;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

OwnerOperands codegen::getOwnerOperands(pos::SitesOwnerInterface owner) {
  Operation *op = owner;
  if (auto attention = dyn_cast<pos::AttentionOp>(op))
    return {attention.getQuery(),        attention.getKey(),
            attention.getValues(),       attention.getQueryPositions(),
            attention.getKeyPositions(), attention.getQueryTail()};
  if (auto attention = dyn_cast<pos::AttentionBackwardOp>(op))
    return {attention.getQuery(),        attention.getKey(),
            attention.getValues(),       attention.getQueryPositions(),
            attention.getKeyPositions(), attention.getQueryTail()};
  auto ofMap = [](auto map) -> OwnerOperands {
    Value rows = map.getIndices() ? map.getIndices() : map.getInput();
    return {rows, rows, {}, map.getPositions(), map.getPositions()};
  };
  if (auto map = dyn_cast<pos::MapRowsOp>(op))
    return ofMap(map);
  return ofMap(cast<pos::MapRowsBackwardOp>(op));
}

std::optional<RowOperand> codegen::getMappedOperand(Operation *owner) {
  if (auto map = dyn_cast<pos::MapRowsOp>(owner))
    return map.getOperand();
  if (auto map = dyn_cast<pos::MapRowsBackwardOp>(owner))
    return map.getOperand();
  return std::nullopt;
}

static SmallVector<bool> getWantedParams(pos::SitesOwnerInterface owner) {
  SmallVector<bool> wanted(owner.getParamOperands().size(), false);
  ArrayRef<int32_t> numbers;
  if (auto backward = dyn_cast<pos::AttentionBackwardOp>(*owner))
    numbers = backward.getParamGradients();
  if (auto backward = dyn_cast<pos::MapRowsBackwardOp>(*owner))
    numbers = backward.getParamGradients();
  for (int32_t number : numbers)
    wanted[number] = true;
  return wanted;
}

//===----------------------------------------------------------------------===//
// Hoisted values
//===----------------------------------------------------------------------===//

/// The operands whose sites need each hoisted value, by way of later hoists
/// too.
static DenseMap<Operation *, llvm::SmallSetVector<RowOperand, 4>>
findUsers(const KernelPlan &plan, Block &sites,
          std::optional<RowOperand> mapped) {
  DenseMap<Operation *, llvm::SmallSetVector<RowOperand, 4>> users;
  for (Operation &site : llvm::reverse(sites)) {
    if (auto columns = dyn_cast<pos::ColumnsOp>(site)) {
      for (const RowColumns &part : plan.columns)
        if (part.op == columns)
          for (RowOperand operand : {RowOperand::query, RowOperand::key})
            users[part.get(operand)].insert(operand);
      continue;
    }
    llvm::SmallSetVector<RowOperand, 4> operands;
    if (auto rows = dyn_cast<pos::RowsOp>(site)) {
      for (auto attr : rows.getOf().getAsRange<pos::RowOperandAttr>())
        if (!mapped || *mapped == attr.getValue())
          operands.insert(attr.getValue());
    } else if (isa<pos::HoistOp>(site)) {
      operands = users.lookup(&site);
    } else if (!mapped) {
      operands.insert(RowOperand::query);
    }
    if (operands.empty())
      continue;
    site.walk([&](Operation *nested) {
      for (Value value : nested->getOperands())
        if (auto hoist = value.getDefiningOp<pos::HoistOp>())
          users[hoist].insert(operands.begin(), operands.end());
    });
  }
  return users;
}

/// Whether a hoist gives an integer that only other hoists use.
static bool isHelper(pos::HoistOp hoist) {
  return isa<IntegerType>(hoist.getType()) &&
         llvm::all_of(hoist->getUsers(), [](Operation *user) {
           return user->getParentOfType<pos::HoistOp>() &&
                  !user->getParentOfType<pos::RunningSumOp>();
         });
}

static LogicalResult planHoists(KernelPlan &plan, Block &sites) {
  auto users = findUsers(plan, sites, getMappedOperand(plan.owner));
  DenseSet<Operation *> wanted;
  for (auto hoist : sites.getOps<pos::HoistOp>()) {
    Hoisted entry{hoist, HoistForm::HeadScalar, {}};
    entry.axes = hoist.getAxisSet();
    std::optional<HoistForm> form = passes::getHoistForm(entry.axes);
    if (!form)
      return hoist.emitOpError("over these axes has no kernel on this target");
    entry.form = *form;
    entry.perBatch = entry.axes.contains(Axis::batch);
    entry.perHead = entry.axes.contains(Axis::head);
    bool trained = false;
    hoist.walk([&](Operation *op) {
      for (Value value : op->getOperands()) {
        auto param = dyn_cast<BlockArgument>(value);
        if (param && param.getOwner() == &sites)
          trained |= plan.paramWantsGradient[param.getArgNumber()];
        trained |= wanted.contains(value.getDefiningOp());
      }
    });
    entry.wantsGradient =
        trained && isa<FloatType>(getElementTypeOrSelf(hoist.getType()));
    if (auto vector = dyn_cast<RankedTensorType>(hoist.getType()))
      entry.extent = vector.getDimSize(0);
    if (entry.wantsGradient)
      wanted.insert(hoist);
    entry.isEmittedInPlace =
        entry.form == HoistForm::HeadScalar || isHelper(hoist);
    if (std::optional<TableParam> table = findTableParam(entry, sites)) {
      entry.param = table->number;
      entry.isAtIndex = table->isAtIndex;
    }
    for (RowOperand operand : users.lookup(hoist)) {
      entry.operand = operand;
      plan.hoisted.push_back(entry);
    }
  }
  return success();
}

static void planHinges(KernelPlan &plan, Block &sites) {
  for (auto hinges : sites.getOps<pos::HingesOp>()) {
    PiecewiseLinearFunction function{hinges};
    hinges.walk([&](pos::ReadOp read) {
      auto param = dyn_cast<BlockArgument>(read.getTensor());
      if (param && param.getOwner() == &sites)
        function.wantsGradient |= plan.paramWantsGradient[param.getArgNumber()];
    });
    plan.hinges.push_back(function);
  }
  if (plan.score)
    plan.score.walk(
        [&](pos::HingeSumOp sum) { plan.hingeSums.push_back(sum); });
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

RowTable codegen::getRowTable(pos::RowDotOpInterface op) {
  RowTable table{op.getSide(),
                 cast<BlockArgument>(op.getTable()).getArgNumber(),
                 op.getColumns()};
  if (op.getAddend())
    table.addend = cast<BlockArgument>(op.getAddend()).getArgNumber();
  return table;
}

static bool hasBound(Value index) {
  if (index)
    if (auto hoist = index.getDefiningOp<pos::HoistOp>())
      index = hoist.getBody().front().getTerminator()->getOperand(0);
  return index &&
         isa_and_nonnull<arith::MaxSIOp, arith::MinSIOp>(index.getDefiningOp());
}

OffsetProduct::OffsetProduct(pos::OffsetDotOp op)
    : op(op), table(getRowTable(op)), index(op.getIndex()),
      isClipped(hasBound(op.getIndex())), count(op.getCount()),
      column(op.getColumn()), factor(op.getFactor()) {}

unsigned KernelPlan::findTable(pos::RowDotOpInterface op) const {
  return llvm::find(rowTables, getRowTable(op)) - rowTables.begin();
}

bool KernelPlan::readsRows(pos::Side side) const {
  return llvm::any_of(
      rowTables, [&](const RowTable &table) { return table.side == side; });
}

bool KernelPlan::multipliesKeys() const {
  return readsRows(pos::Side::key) ||
         llvm::any_of(offsetProducts, [](const OffsetProduct &product) {
           return product.table.side == pos::Side::key;
         });
}

unsigned KernelPlan::findHinges(pos::HingeSumOp op) const {
  return llvm::find_if(hinges,
                       [&](const PiecewiseLinearFunction &function) {
                         return function.op == op.getUnits();
                       }) -
         hinges.begin();
}

unsigned KernelPlan::findOffsetProduct(pos::OffsetDotOp op) const {
  return llvm::find_if(
             offsetProducts,
             [&](const OffsetProduct &product) { return product.op == op; }) -
         offsetProducts.begin();
}

unsigned KernelPlan::findScan(pos::ScanOp op) const {
  return llvm::find(scans, op) - scans.begin();
}

bool KernelPlan::isLeftward() const {
  if (scans.empty())
    return false;
  pos::ScanOp scan = scans.front();
  return scan.getDirection() == pos::Direction::leftward;
}

const Hoisted *KernelPlan::find(pos::HoistOp op, RowOperand operand) const {
  for (const Hoisted &entry : hoisted)
    if (entry.op == op && entry.operand == operand)
      return &entry;
  return nullptr;
}

int64_t KernelPlan::countColumns() const {
  int64_t count = 0;
  for (const RowColumns &part : columns)
    count += part.count;
  return count;
}

int64_t KernelPlan::countColumns(pos::HoistOp op) const {
  int64_t count = 0;
  for (const RowColumns &part : columns)
    if (part.query == op || part.key == op)
      count = std::max(count, part.count);
  return count;
}

const Hoisted *KernelPlan::findRowTerm() const {
  // Accessors of ops are not const.
  pos::RowTermOp op = rowTerm;
  return op ? find(op.getHoist()) : nullptr;
}

template <typename SiteTy>
static LogicalResult setOnce(SiteTy &slot, SiteTy site) {
  if (slot)
    return site.emitOpError("is the second of its kind: fuse sites first");
  slot = site;
  return success();
}

/// The cotangent of a scan needs those of the scans that its result goes into,
/// for all keys: their totals come first.
static void planScanLevels(KernelPlan &plan) {
  size_t count = plan.scans.size();
  pos::Dependence dependence(plan.owner);
  plan.scanLevels.assign(count, 0);
  for (size_t first = count; first-- > 0;)
    for (size_t second = first + 1; second < count; ++second)
      if (dependence.isMadeOf(plan.scans[second].getValue(),
                              plan.scans[first].getResult()))
        plan.scanLevels[first] =
            std::max(plan.scanLevels[first], plan.scanLevels[second] + 1);
}

/// Where products with the rows of a table are looked up at functions of the
/// offset alone. An index of a nested op may be made of a bound one.
static SmallVector<Value> findOffsetIndices(const KernelPlan &plan,
                                            pos::ScoreOp score,
                                            const RowTable &table) {
  SmallVector<Value> indices;
  pos::Dependence dependence(plan.owner);
  WalkResult result = score.getBody().walk([&](pos::RowDotOpInterface dot) {
    if (isa<pos::OffsetDotOp>(*dot) || getRowTable(dot) != table)
      return WalkResult::advance();
    if (plan.hasPositions || dot->getParentOp() != score ||
        !pos::AxisSet(pos::Axis::offset)
             .contains(dependence.of(dot.getIndex())))
      return WalkResult::interrupt();
    indices.push_back(dot.getIndex());
    return WalkResult::advance();
  });
  return result.wasInterrupted() ? SmallVector<Value>() : indices;
}

static LogicalResult planContextual(KernelPlan &plan, pos::ScoreOp score) {
  for (auto dot : score.getBody().front().getOps<pos::OffsetDotOp>())
    plan.offsetProducts.emplace_back(dot);
  score.getBody().walk([&](pos::RowDotOpInterface dot) {
    if (isa<pos::OffsetDotOp>(*dot))
      return;
    if (isa<BlockArgument>(dot.getTable()) &&
        !llvm::is_contained(plan.rowTables, getRowTable(dot)))
      plan.rowTables.push_back(getRowTable(dot));
  });
  for (const RowTable &table : plan.rowTables)
    plan.offsetIndices.push_back(findOffsetIndices(plan, score, table));
  for (auto scan : score.getBody().front().getOps<pos::ScanOp>()) {
    plan.scans.push_back(scan);
    if (scan.getDirection() != plan.scans.front().getDirection())
      return scan.emitOpError("runs against another scan of this attention");
  }
  planScanLevels(plan);
  return success();
}

static LogicalResult planColumns(KernelPlan &plan, pos::ColumnsOp columns) {
  APInt count;
  if (!matchPattern(columns.getCount(), m_ConstantInt(&count)))
    return columns.emitOpError("count must be constant");
  Operation *yield = columns.getPayload().getTerminator();
  RowColumns part{columns, count.getSExtValue(),
                  yield->getOperand(0).getDefiningOp<pos::HoistOp>(),
                  yield->getOperand(1).getDefiningOp<pos::HoistOp>()};
  if (part.count < 0)
    return columns.emitOpError("appends ") << part.count << " columns";
  if (!part.query || !part.key)
    return columns.emitOpError("values are no 'pos.hoist': hoist first");
  if (part.count > 0)
    plan.columns.push_back(part);
  return success();
}

static LogicalResult planSite(KernelPlan &plan, Operation &site) {
  if (auto rows = dyn_cast<pos::RowsOp>(site))
    return planRows(plan, rows);
  // Places inside attention do not concern a row map outside of it.
  if (getMappedOperand(plan.owner))
    return success();
  if (auto score = dyn_cast<pos::ScoreOp>(site)) {
    Type type = score.getBody().front().getArgument(0).getType();
    if (auto heads = dyn_cast<RankedTensorType>(type)) {
      plan.scoreHeads = heads.getDimSize(0);
      if (ShapedType::isDynamic(plan.scoreHeads))
        return score.emitOpError("of all heads needs their number: inline "
                                 "encodings first");
    }
    pos::Dependence dependence(plan.owner);
    plan.isAdditive = passes::isAdditive(score.getPayload(), dependence);
    if (failed(planContextual(plan, score)))
      return failure();
    return setOnce(plan.score, score);
  }
  if (auto mask = dyn_cast<pos::MaskOp>(site))
    return setOnce(plan.mask, mask);
  if (auto columns = dyn_cast<pos::ColumnsOp>(site))
    return planColumns(plan, columns);
  if (auto turn = dyn_cast<pos::TurnRowsOp>(site))
    return planTurn(plan, turn);
  if (auto rows = dyn_cast<pos::WeightedRowsOp>(site)) {
    APInt acts(1, 1);
    if (rows.getCondition() &&
        !matchPattern(rows.getCondition(), m_ConstantInt(&acts)))
      return rows.emitOpError("condition must be an option");
    if (acts.getBoolValue())
      plan.weightedRows.push_back(rows);
    return success();
  }
  return site.emitOpError("has no kernel on this target");
}

/// Axes of positions that payloads ask for must be there: kernels read them
/// without a check, and no coordinate is made up. Without positions it is the
/// index, which has one axis.
static LogicalResult verifyPositionAxes(pos::SitesOwnerInterface owner) {
  OwnerOperands operands = getOwnerOperands(owner);
  auto verify = [&](Operation *op, int64_t axis,
                    pos::Side side = pos::Side::self) -> LogicalResult {
    for (pos::Side of : {pos::Side::query, pos::Side::key}) {
      if (side != pos::Side::self && side != of)
        continue;
      Value positions = of == pos::Side::key ? operands.keyPositions
                                             : operands.queryPositions;
      if (!positions && axis == 0)
        continue;
      if (!positions)
        return op->emitOpError("asks for axis ")
               << axis << " of positions, but no positions of "
               << (operands.values.empty() ? "rows" : pos::stringifySide(of))
               << " are given: the index has one axis";
      int64_t axes = cast<RankedTensorType>(positions.getType()).getDimSize(2);
      if (ShapedType::isDynamic(axes))
        return op->emitOpError("asks for axis ")
               << axis << ": positions must have a static number of axes";
      if (axis >= axes)
        return op->emitOpError("asks for axis ")
               << axis << ", but the positions given have " << axes;
    }
    return success();
  };
  WalkResult result = owner.getSitesRegion().walk([&](Operation *op) {
    LogicalResult verified = success();
    if (auto coord = dyn_cast<pos::CoordOp>(op))
      verified = verify(op, coord.getAxis(), coord.getSide());
    else if (auto offset = dyn_cast<pos::OffsetOp>(op))
      verified = verify(op, offset.getAxis());
    else if (auto bound = dyn_cast<pos::BoundOp>(op))
      verified = verify(op, bound.getAxis(), bound.getSide());
    else if (auto span = dyn_cast<pos::RequireSpanOp>(op))
      verified = verify(op, span.getAxis());
    return failed(verified) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

ArrayRef<RowMap> codegen::getRowMaps(const KernelPlan &plan,
                                     pos::RowOperand operand) {
  switch (operand) {
  case pos::RowOperand::query:
    return plan.queryRows;
  case pos::RowOperand::key:
    return plan.keyRows;
  case pos::RowOperand::value:
    return plan.valueRows;
  default:
    return plan.inputRows;
  }
}

/// Makes bodies of `pos.for_heads` complete payloads of their own. Passes that
/// compute what is the same once may have taken scalars out of them.
static void completeBodies(Block &sites) {
  for (Operation &site : sites)
    site.walk([](pos::ForHeadsOp atHeads) {
      passes::moveScalarsIn(atHeads, *atHeads->getBlock());
    });
}

FailureOr<KernelPlan> codegen::planKernel(pos::SitesOwnerInterface owner) {
  KernelPlan plan;
  plan.owner = owner;
  plan.paramWantsGradient = getWantedParams(owner);
  plan.scale = owner.getEffectiveScale();
  plan.hasPositions = owner.hasPositions();
  if (ArrayAttr uses = owner.getPendingUses(); uses && !uses.empty())
    return owner.emitOpError("has uses of encodings: inline them first");
  if (owner.getSitesRegion().empty()) {
    plan.tileReads.resize(plan.paramWantsGradient.size());
    return plan;
  }
  if (failed(verifyPositionAxes(owner)))
    return failure();
  Block &sites = owner.getSitesRegion().front();
  completeBodies(sites);
  for (Operation &site : sites) {
    if (isa<pos::SiteOpInterface>(site) && failed(planSite(plan, site)))
      return failure();
    if (auto term = dyn_cast<pos::RowTermOp>(site))
      if (failed(setOnce(plan.rowTerm, term)))
        return failure();
  }
  if (plan.scoreHeads && !plan.weightedRows.empty()) {
    pos::WeightedRowsOp rows = plan.weightedRows.front();
    rows.emitOpError("has no kernel beside a score of all heads")
            .attachNote(plan.score.getLoc())
        << "this score sees all heads";
    return failure();
  }
  planHinges(plan, sites);
  if (failed(verifyTurns(plan)) || failed(planHoists(plan, sites)) ||
      failed(verifyGradientPaths(plan)))
    return failure();
  for (BlockArgument param : sites.getArguments())
    plan.tileReads.push_back(getTileReads(plan, param));
  return plan;
}
