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

/// sum: `result` [B, H, entries] (f32 or f64, contiguous; no entries: one) from
/// partial sums [chunks, B, H, entries], over the chunks in order. What has an
/// extent of 1 in the result is summed.
void launchSum(const Lowering &lowering, llvm::StringRef suffix,
               mlir::Value partials, mlir::Value result);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_FINISH_H
