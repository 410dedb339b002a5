//===- RowPullback.h - Gradients of mapped rows -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWPULLBACK_H
#define SEXTANT_CODEGEN_ROWS_ROWPULLBACK_H

#include "codegen/Rows/RowCopy.h"

namespace sextant::codegen {

/// The gradient of one mapped row becomes the gradient of the row.
struct RowPullback {
  /// The row, as it was before the maps: of tensor [B, H, L, dim].
  unsigned tensor = 0;
  std::optional<unsigned> indices; ///< see RowCopy
  Index batch = 0, head = 0, row = 0;
  int64_t dim = 0;
  llvm::ArrayRef<RowMap> maps; ///< in order of application
  RowPoint *point = nullptr;
  /// f32 [dim]: the gradient, changed in place.
  mlir::Value gradient;
  /// f32 [dim], padded to a vector: forward values.
  mlir::Value memory;
};

void emitRowPullback(KernelBuilder &kernel, ArgumentBlock &arguments,
                     const RowPullback &pullback, mlir::Type element);

/// Stores a contiguous row of f32 as `dim` elements of type `element`.
void storeRow(KernelBuilder &kernel, mlir::Value from, int64_t dim,
              mlir::Value to, mlir::Type element);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWPULLBACK_H
