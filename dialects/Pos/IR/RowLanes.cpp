//===- RowLanes.cpp - The lanes that a row map works on -------------------===//

#include "dialects/Pos/IR/RowLanes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant::pos;

bool sextant::pos::mapsRows(RowsOp rows, RowOperand operand) {
  return llvm::any_of(rows.getOf().getAsRange<RowOperandAttr>(),
                      [&](auto attr) { return attr.getValue() == operand; });
}

std::optional<LaneRange> sextant::pos::getLanes(RowsOp rows, int64_t width) {
  if (!rows.getBegin())
    return LaneRange{0, width};
  APInt begin, end;
  if (!matchPattern(rows.getBegin(), m_ConstantInt(&begin)) ||
      !matchPattern(rows.getEnd(), m_ConstantInt(&end)))
    return std::nullopt;
  return LaneRange{begin.getSExtValue(),
                   end.isZero() ? width : end.getSExtValue()};
}

FailureOr<LaneRange> sextant::pos::checkLanes(RowsOp rows, int64_t width) {
  std::optional<LaneRange> lanes = getLanes(rows, width);
  if (!lanes)
    return rows.emitOpError("lanes must be constant (C6)");
  auto [begin, end] = *lanes;
  if (begin < 0 || end > width || begin > end)
    return rows.emitOpError("lanes [")
           << begin << ", " << end << ") lie outside the " << width
           << " lanes of a row (C6)";
  bool pairs = rows.getGrouping() == Grouping::half ||
               rows.getGrouping() == Grouping::interleaved;
  if (pairs && (end - begin) % 2 != 0)
    return rows.emitOpError("maps pairs of lanes, got ")
           << end - begin << " lanes (C6)";
  return *lanes;
}
