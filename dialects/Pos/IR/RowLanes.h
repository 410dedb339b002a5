//===- RowLanes.h - The lanes that a row map works on -----------*- C++ -*-===//
//
// A row map of given lanes, or of all of a row (C6), asked of by passes and
// plans once options are constants.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_ROWLANES_H
#define SEXTANT_DIALECTS_POS_IR_ROWLANES_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::pos {

/// Lanes [begin, end) of a row.
struct LaneRange {
  int64_t begin, end;
};

/// Whether the rows of an operand are mapped.
bool mapsRows(RowsOp rows, RowOperand operand);

/// The lanes that are mapped of rows of `width` lanes; none if the ends of the
/// range are not constant.
std::optional<LaneRange> getLanes(RowsOp rows, int64_t width);

/// As `getLanes`. Lanes outside of the row, or half a pair, are an error.
mlir::FailureOr<LaneRange> checkLanes(RowsOp rows, int64_t width);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_ROWLANES_H
