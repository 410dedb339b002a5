//===- OperandRows.h - Mapped rows, once for all tiles ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_OPERANDROWS_H
#define SEXTANT_CODEGEN_ROWS_OPERANDROWS_H

#include "codegen/Tables/HoistTable.h"
#include "codegen/Tiles/RowParts.h"

namespace sextant::codegen {

/// The parts of rows of an operand as products read them: those of query and
/// key have their columns behind the lanes of the operand, each part at a whole
/// vector of `lanes`.
RowParts getOperandParts(const KernelPlan &plan, pos::RowOperand operand,
                         mlir::Value rows, int64_t lanes);
/// Elements of such a row. With columns these are whole chunks of 16 bytes, so
/// that all rows begin at one.
int64_t countOperandElements(const KernelPlan &plan, pos::RowOperand operand,
                             mlir::Value rows, int64_t lanes);

/// Numbers of the hoisted values that the launches of rows compute themselves
/// where there are no tables of them.
llvm::SmallVector<unsigned> getValuesOfOperandRows(const Lowering &lowering);

/// Rows of query, key or a value [B, H, L, dim] of an attention as products
/// read them, for kernels that copy rows as they lie: where row maps change
/// them or columns follow them, a tensor of that many elements of their type
/// that a launch fills; else `rows` itself. `suffix` ends the name of the
/// launch.
mlir::Value launchOperandRows(const Lowering &lowering,
                              const HoistTables &tables,
                              pos::RowOperand operand, mlir::Value rows,
                              llvm::StringRef suffix);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_OPERANDROWS_H
