//===- RowIndices.h - Rows that a map takes from a table --------*- C++ -*-===//
//
// A row map outside attention works on rows [B, L, C], or on rows of a table
// [V, C] that indices [B, L] take. Written once for every target.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ROWINDICES_H
#define SEXTANT_CODEGEN_TABLES_ROWINDICES_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// What the row map that is lowered reads: rows or a table of rows, and the
/// indices into it or null.
struct MappedRows {
  mlir::Value input, indices;
};
/// Null without a row map: attention has its rows as they are.
std::optional<MappedRows> getMappedRows(pos::SitesOwnerInterface owner);

/// Allocates `type` [B, L, C] for the rows of the map that is lowered.
mlir::Value allocateMapped(const Lowering &lowering, mlir::Type type);

/// Emits the error of a call whose indices are not all rows of the table.
/// Nothing without indices.
void emitIndexChecks(const Lowering &lowering);

/// The number in a table of `rows` rows of row `row` of `batch`; `indices` is
/// an operand of the kernel. For an index outside of the table, which a device
/// may not know of yet, the nearest row.
Index loadRowIndex(KernelBuilder &kernel, ArgumentBlock &arguments,
                   unsigned indices, Index batch, Index row, Index rows);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ROWINDICES_H
