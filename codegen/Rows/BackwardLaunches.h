//===- BackwardLaunches.h - The kernels around the main backward *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_BACKWARDLAUNCHES_H
#define SEXTANT_CODEGEN_ROWS_BACKWARDLAUNCHES_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Rows/PartialSum.h"
#include "codegen/Tables/HoistTable.h"
#include "codegen/Tiles/BackwardShape.h"

namespace sextant::codegen {

/// What the main kernel needs of each query row, [B, H, padded rows] x f32: see
/// BackwardTask.h.
struct RowStatistics {
  mlir::Value negativeShift, inverseSum, negativeDelta;
};

/// delta: the statistics of `paddedRows` rows (type index) of each head.
/// `termPartials`, partial sums [chunks, B, H, entries] of the gradient of the
/// term that a row's log-sum-exp has beyond that of its scores, or null, gets
/// the gradient of the log-sum-exp in its last chunk.
RowStatistics launchDelta(const Lowering &lowering, const BackwardShape &shape,
                          mlir::Value paddedRows, mlir::Value termPartials);

/// finish: dQ from its partial sums [chunks, B, H, rows, row], pulled back
/// through the row maps of the query, plus `unmapped`, sums of gradients of the
/// rows as they entered, [chunks, B, H, rows, row] with rows of their own
/// width. `hoistPartials` (per hoist) takes the gradients of tables
/// behind these maps, see RowGradients.h.
mlir::Value launchFinish(const Lowering &lowering, const BackwardShape &shape,
                         const HoistTables &tables, mlir::Value partials,
                         llvm::ArrayRef<mlir::Value> unmapped,
                         llvm::ArrayRef<PartialSum> hoistPartials);

/// The sum of `rows` [B, H, rows, dim] x f32 and of `extras` [1, B, H, padded
/// rows, padded dim] x f32, as a tensor of the type `result`.
mlir::Value launchAddRows(const Lowering &lowering, llvm::StringRef suffix,
                          mlir::Value rows, llvm::ArrayRef<mlir::Value> extras,
                          mlir::RankedTensorType result);

/// narrow: an f32 tensor from an f64 one of the same shape; both contiguous.
mlir::Value launchNarrow(const Lowering &lowering, llvm::StringRef suffix,
                         mlir::Value wide);

/// sum: `result` (f32 or f64, contiguous) from partial sums [chunks, B, H,
/// entries], over the chunks in order. With `hasHeads` the first dimensions of
/// the result are batch and heads, and what has an extent of 1 there is summed;
/// else its elements are the entries, and all of B and H are summed. Partial
/// sums that are there only where tables do not hold the offsets in use come
/// with the range that says so (OffsetRange.h); the sum is 0 elsewhere.
void launchSum(const Lowering &lowering, llvm::StringRef suffix,
               mlir::Value partials, mlir::Value result, bool hasHeads,
               mlir::Value unlessTables = {});

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_BACKWARDLAUNCHES_H
