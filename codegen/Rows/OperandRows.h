//===- OperandRows.h - Mapped rows, once for all tiles ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_OPERANDROWS_H
#define SEXTANT_CODEGEN_ROWS_OPERANDROWS_H

#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

/// Rows of query, key or a value [B, H, L, dim] of an attention as products
/// read them, for kernels that copy rows as they lie: where row maps change
/// them, a tensor of the same type that a launch fills; else `rows` itself.
/// `suffix` ends the name of the launch.
mlir::Value launchOperandRows(const Lowering &lowering,
                              const HoistTables &tables,
                              pos::RowOperand operand, mlir::Value rows,
                              llvm::StringRef suffix);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_OPERANDROWS_H
