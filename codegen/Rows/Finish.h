//===- Finish.h - Gradients out of partial sums -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_FINISH_H
#define SEXTANT_CODEGEN_ROWS_FINISH_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Rows/PartialSum.h"
#include "codegen/Tables/HoistTable.h"
#include "codegen/Tiles/BackwardShape.h"

namespace sextant::codegen {

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

#endif // SEXTANT_CODEGEN_ROWS_FINISH_H
