//===- Columns.h - Columns appended to query and key rows -------*- C++ -*-===//
//
// Products read rows of query and key with their columns behind the lanes of
// the operand. The columns come from tables [B', H', L, columns] (RowLaneTables
// of HoistTable.h), which are read whenever rows are copied. Of the gradient of
// a row the last part is that of the columns: TableRowSums.h adds them up.
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

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_COLUMNS_H
