//===- Delta.h - What the backward needs of the softmax ---------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_DELTA_H
#define SEXTANT_CODEGEN_ROWS_DELTA_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// What the main kernel needs of each query row, [B, H, padded rows] x f32:
/// what is added to scores, by what their exponentials are multiplied then, and
/// dlse - rowsum(o do). Rows past the end have -inf, 0 and 0: P = dS = 0.
struct RowStatistics {
  mlir::Value negativeShift, inverseSum, negativeDelta;
};

/// delta: the statistics of `paddedRows` rows (type index) of each head, a
/// multiple of `block`, of which an item has one.
/// `termPartials`, partial sums [chunks, B, H, entries] of the gradient of the
/// term that a row's log-sum-exp has beyond that of its scores, or null, gets
/// the gradient of the log-sum-exp in its last chunk.
RowStatistics launchDelta(const Lowering &lowering, int64_t block,
                          mlir::Value paddedRows, mlir::Value termPartials);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_DELTA_H
