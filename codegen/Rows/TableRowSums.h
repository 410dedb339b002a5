//===- TableRowSums.h - Gradients of tables over rows -----------*- C++ -*-===//
//
// A table of values over rows and lanes (RowLaneTables of HoistTable.h) may
// serve several elements of the batch or all heads: its gradient is the sum of
// what each of them has. Where a parameter is the table, it is the parameter's.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_TABLEROWSUMS_H
#define SEXTANT_CODEGEN_ROWS_TABLEROWSUMS_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Tiles/RowParts.h"

namespace sextant::codegen {

/// What adds up to the gradient of a table.
struct TableRowSums {
  mlir::Value partials; ///< [chunks, B, H, at least `rows`, row], f32
  mlir::Value rows;     ///< of the table, an index
  /// Of a row of `partials`: the table has as many columns as the widest, and
  /// others have something for the first ones only.
  llvm::SmallVector<RowPart> parts;
  double factor = 1.0; ///< of the sum
  bool adds = false;   ///< to what the target holds
  /// Added to the number of a row of `partials` it is that of the target's row;
  /// what is below 0 is of row 0. Null: they are the same.
  mlir::Value shift = {};
};

/// `target` is the gradient of the table, [B', H', L, columns], or that of the
/// parameter that is the table; f32.
void launchTableRowSums(const Lowering &lowering, llvm::StringRef suffix,
                        const Hoisted &hoisted, const TableRowSums &sums,
                        mlir::Value target);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_TABLEROWSUMS_H
