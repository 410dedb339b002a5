//===- RowProductLaunch.h - Pieces of the kernels of row products ---------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWPRODUCTLAUNCH_H
#define SEXTANT_CODEGEN_ROWS_ROWPRODUCTLAUNCH_H

#include "codegen/Rows/RowCopy.h"
#include "codegen/Rows/RowProducts.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "llvm/Support/MathExtras.h"

namespace sextant::codegen {

/// Operands of a kernel of products.
struct RowProductLaunch {
  RowProductLaunch(const RowProducts &products, int64_t width);

  bool columns;
  mlir::Type element;
  int64_t dim, row; ///< of the rows, and padded
  unsigned rows = 0, table = 0;
  std::optional<unsigned> addend, used;

  /// Adds what is multiplied to the reads of a launch.
  void addReads(const RowProducts &products, LaunchOperands &operands);

  /// The entries of `count` in all that are used: whole vectors.
  KernelBuilder::Range getUsed(KernelBuilder &kernel, ArgumentBlock &arguments,
                               Index count) const;
  /// The address of element (table row, lane) of a head's table.
  mlir::Value getTableElement(KernelBuilder &kernel, ArgumentBlock &arguments,
                              Index head, Index tableRow, Index lane) const;
  /// Copies the table to rows of `row` f32; rows up to `padded` are zero.
  void copyTable(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                 Index padded, mlir::Value to) const;
  /// Packs used entries of the table as [padded / width][dim][width], in the
  /// order in which a product reads it.
  void packTable(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                 const KernelBuilder::Range &used, mlir::Value to) const;
  /// Copies rows first .. first + count - 1 to rows of `row` f32, and adds the
  /// addend.
  void copyRows(KernelBuilder &kernel, ArgumentBlock &arguments, Index batch,
                Index head, Index first, Index count, mlir::Value to) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWPRODUCTLAUNCH_H
