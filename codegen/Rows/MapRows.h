//===- MapRows.h - Row maps outside attention -------------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_MAPROWS_H
#define SEXTANT_CODEGEN_ROWS_MAPROWS_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Lowers `pos.map_rows`: tables of hoisted values, one pass over rows.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerMapRows(const Lowering &lowering);

/// Its gradient, and that of tables read per row (learned embeddings).
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerMapRowsBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_MAPROWS_H
