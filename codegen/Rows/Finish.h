//===- Finish.h - Gradients out of partial sums -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_FINISH_H
#define SEXTANT_CODEGEN_ROWS_FINISH_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Rows/PartialSum.h"
#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

/// The rows of an operand whose gradient is finished.
struct FinishedRows {
  pos::RowOperand operand = pos::RowOperand::query;
  mlir::Value rows;            ///< of the operand
  mlir::RankedTensorType type; ///< of the gradient
  /// Partial sums of the gradient of mapped rows, [chunks, B, H, rows, row], of
  /// a static number of lanes, padded to a vector. Main kernels have scaled all
  /// but those of queries.
  mlir::Value partials;
  /// Sums of gradients of the rows as they entered, [chunks, B, H, rows, row],
  /// with rows of their own width.
  llvm::ArrayRef<mlir::Value> unmapped = {};
};

/// The gradient of rows from its partial sums, pulled back through the row maps
/// of the operand. `hoistPartials` (per hoist) takes the gradients of tables
/// behind these maps, see RowGradients.h.
mlir::Value launchFinish(const Lowering &lowering, llvm::StringRef suffix,
                         const HoistTables &tables, const FinishedRows &rows,
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
