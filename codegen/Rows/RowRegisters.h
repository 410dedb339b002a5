//===- RowRegisters.h - Rows that are mapped in registers -------*- C++ -*-===//
//
// For targets whose loads wait for memory: several rows of a head are loaded
// before one of them is mapped, none of them has a copy in scratch memory, and
// all are stored behind the last map.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWREGISTERS_H
#define SEXTANT_CODEGEN_ROWS_ROWREGISTERS_H

#include "codegen/Rows/RowCopy.h"

namespace sextant::codegen {

/// Rows of `dim` elements, padded to vectors, and the maps that are applied to
/// them.
class RowRegisters {
public:
  using Values = KernelBuilder::Values;

  RowRegisters(KernelBuilder &kernel, llvm::ArrayRef<RowMap> maps, int64_t dim)
      : kernel(kernel), maps(maps), dim(dim) {}

  /// Whether the target wants it, and groups of the maps are lanes side by
  /// side.
  static bool suit(const VectorTarget &target, llvm::ArrayRef<RowMap> maps);

  int64_t countVectors() const;
  /// Rows that are handled together.
  int64_t countRows() const;
  /// The row at `from`, whose elements are `step` apart, in their type, so that
  /// nothing waits for it.
  Values load(mlir::Value from, mlir::Value step, mlir::Type element);
  void store(mlir::ValueRange row, mlir::Value to, mlir::Type element);
  /// Applies the maps to a loaded row; the result is f32.
  Values map(mlir::ValueRange row, RowPoint &point, Index number);
  /// The gradient of a row from that of the mapped row.
  Values pull(mlir::ValueRange row, mlir::ValueRange gradient, RowPoint &point,
              Index number);

private:
  Values apply(size_t count, mlir::ValueRange row, RowPoint &point,
               Index number);

  KernelBuilder &kernel;
  llvm::ArrayRef<RowMap> maps;
  int64_t dim;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWREGISTERS_H
