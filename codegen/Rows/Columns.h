//===- Columns.h - Columns appended to query and key rows -------*- C++ -*-===//
//
// Products read rows of query and key with their columns behind the lanes of
// the operand. The columns come from tables [B', H', L, columns] (RowLaneTables
// of HoistTable.h), which are read whenever rows are copied; they are never
// used in place. Of the gradient of a row the last part is that of the columns:
// the sums over what shares a table's rows are the table's gradient.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_COLUMNS_H
#define SEXTANT_CODEGEN_ROWS_COLUMNS_H

#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/RowParts.h"

namespace sextant::codegen {

/// Lanes of the parts of query and key rows: the operand's, then the columns of
/// each site.
llvm::SmallVector<int64_t> getHeadParts(const KernelPlan &plan,
                                        mlir::Value operand);

/// Copies rows of query or key, `parts` behind each other. `copy` says which
/// rows, and how the first part is mapped; it clears NaN in columns only.
void emitHeadCopy(KernelBuilder &kernel, ArgumentBlock &arguments,
                  const KernelPlan &plan, const SiteOperands &sites,
                  pos::RowOperand operand, const RowParts &parts,
                  const RowCopy &copy, mlir::Type element);

/// columns: the gradient of a table of query columns, `result` [B', H', L,
/// columns], from partial sums [chunks, B, H, rows, row] of the gradients of
/// rows: its `parts`, one per site that appends the table, added up over the
/// chunks, and over batch and heads where the result has one, in that order,
/// times the attention's scale.
void launchColumnSum(const Lowering &lowering, llvm::StringRef suffix,
                     mlir::Value partials, llvm::ArrayRef<RowPart> parts,
                     mlir::Value result);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_COLUMNS_H
