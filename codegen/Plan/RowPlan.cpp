//===- RowPlan.cpp - Which rows a kernel maps and turns -------------------===//
//
// Row maps are listed per operand, with their lanes resolved; turns come ahead
// of them. A map or a turn that the operand's rows do not fit is a diagnostic.
//
//===----------------------------------------------------------------------===//

#include "codegen/Plan/RowPlan.h"
#include "dialects/Pos/IR/RowLanes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Axis;
using pos::AxisSet;
using pos::RowOperand;

//===----------------------------------------------------------------------===//
// Row maps
//===----------------------------------------------------------------------===//

/// A row map of rows with `width` lanes; inlining has resolved its grouping.
static FailureOr<RowMap> resolveRows(pos::RowsOp rows, int64_t width) {
  RowMap map{rows, *rows.getGrouping()};
  if (map.grouping == pos::Grouping::whole)
    return rows.emitOpError("of whole rows has no kernel on any target; maps "
                            "of lanes and pairs have, and pos.turn_rows");
  FailureOr<pos::LaneRange> lanes = pos::checkLanes(rows, width);
  if (failed(lanes))
    return failure();
  map.begin = lanes->begin;
  map.end = lanes->end;
  return map;
}

static LogicalResult planMappedRows(KernelPlan &plan, pos::RowsOp rows,
                                    RowOperand operand) {
  if (!pos::mapsRows(rows, operand))
    return success();
  std::optional<int64_t> width =
      plan.owner.getStaticExtent(pos::Extent::head_dim);
  if (!width)
    return plan.owner.emitOpError("rows must have a static width");
  FailureOr<RowMap> map = resolveRows(rows, *width);
  if (failed(map))
    return failure();
  plan.inputRows.push_back(*map);
  return success();
}

static LogicalResult planAttentionRows(KernelPlan &plan, pos::RowsOp rows) {
  OwnerOperands operands = getOwnerOperands(plan.owner);
  auto addTo = [&](SmallVector<RowMap> &list, Value tensor) {
    int64_t width = cast<RankedTensorType>(tensor.getType()).getDimSize(3);
    FailureOr<RowMap> map = resolveRows(rows, width);
    if (succeeded(map))
      list.push_back(*map);
    return LogicalResult(map);
  };
  for (auto attr : rows.getOf().getAsRange<pos::RowOperandAttr>()) {
    LogicalResult added = success();
    switch (attr.getValue()) {
    case RowOperand::query:
      added = addTo(plan.queryRows, operands.query);
      break;
    case RowOperand::key:
      added = addTo(plan.keyRows, operands.key);
      break;
    case RowOperand::value:
      for (Value value : operands.values.drop_front())
        if (cast<ShapedType>(value.getType()).getDimSize(3) !=
            cast<ShapedType>(operands.values.front().getType()).getDimSize(3))
          return rows.emitOpError("of value needs values of one width");
      added = addTo(plan.valueRows, operands.values.front());
      break;
    default:
      return rows.emitOpError("of ")
             << pos::stringifyRowOperand(attr.getValue())
             << " acts outside attention: apply it with 'pos.map_rows'";
    }
    if (failed(added))
      return failure();
  }
  return success();
}

LogicalResult codegen::planRows(KernelPlan &plan, pos::RowsOp rows) {
  if (std::optional<RowOperand> mapped = getMappedOperand(plan.owner))
    return planMappedRows(plan, rows, *mapped);
  return planAttentionRows(plan, rows);
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

LogicalResult codegen::planTurn(KernelPlan &plan, pos::TurnRowsOp turn) {
  OwnerOperands operands = getOwnerOperands(plan.owner);
  APInt size;
  if (!matchPattern(turn.getSize(), m_ConstantInt(&size)))
    return turn.emitOpError("size of a block must be constant");
  for (auto attr : turn.getOf().getAsRange<pos::RowOperandAttr>()) {
    RowOperand operand = attr.getValue();
    bool isKey = operand == RowOperand::key;
    if (plan.turns.empty() || plan.turns.back().op != turn ||
        llvm::is_contained(plan.turns.back().operands, operand))
      plan.turns.push_back({turn, {}, size.getSExtValue()});
    RowTurn &entry = plan.turns.back();
    Value rows = isKey ? operands.key : operands.query;
    int64_t width = cast<RankedTensorType>(rows.getType()).getDimSize(3);
    if (entry.size < 1 || entry.size > width)
      return turn.emitOpError("blocks of ")
             << entry.size << " lanes do not fit rows of " << width << " (T3)";
    entry.blocks = width / entry.size;
    if (const auto &maps = isKey ? plan.keyRows : plan.queryRows;
        !maps.empty()) {
      InFlightDiagnostic diag =
          turn.emitOpError("comes before other row maps of the same rows: name "
                           "its encoding first (T2)");
      diag.attachNote(maps.front().op->getLoc()) << "this map is named earlier";
      return diag;
    }
    pos::Dependence dependence(/*hasPositions=*/false);
    AxisSet axes =
        dependence.of(turn.getBody().front().getTerminator()->getOperand(0));
    entry.perBatch = axes.contains(Axis::batch);
    entry.perHead = axes.contains(Axis::head);
    entry.operands.push_back(operand);
  }
  return success();
}

LogicalResult codegen::verifyTurns(KernelPlan &plan) {
  if (!plan.score)
    return success();
  WalkResult result = plan.score.walk([&](pos::RowDotOpInterface dot) {
    bool isQuery = dot.getSide() == pos::Side::query;
    for (const RowTurn &turn : plan.turns) {
      if (!llvm::is_contained(turn.operands,
                              isQuery ? RowOperand::query : RowOperand::key))
        continue;
      InFlightDiagnostic diag = dot.emitOpError("reads a ")
                                << pos::stringifySide(dot.getSide())
                                << " row that turns (T2)";
      diag.attachNote(turn.op->getLoc()) << "it turns here";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
