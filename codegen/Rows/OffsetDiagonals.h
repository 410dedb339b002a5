//===- OffsetDiagonals.h - Products read along diagonals --------*- C++ -*-===//
//
// Where lanes are the rows that are multiplied, a panel of them meets rows of
// offsets as entries [entries][panel]. The cell of lane l and row r of a group
// needs entry r - l of these, counted from the group's: rows that are shifted
// lane by lane, in as many selections as a lane has bits.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_OFFSETDIAGONALS_H
#define SEXTANT_CODEGEN_ROWS_OFFSETDIAGONALS_H

#include "codegen/Rows/OffsetProducts.h"

namespace sextant::codegen {

/// A panel of packed rows [row][panel] and its register tiles.
struct OffsetPanel {
  const OffsetShape &shape;
  int64_t rows, vectors; ///< of a register tile
  mlir::Value packed;

  int64_t getWidth() const { return vectors * shape.width; }
  /// Entries that a group of rows reads.
  int64_t countEntries() const { return getWidth() + rows; }
  /// The products of the rows of offsets from `from` on with the panel, entries
  /// low .. high - 1: to `entries`, where entry 0 is first. In whole register
  /// tiles.
  void emitEntries(KernelBuilder &kernel, mlir::Value from, Index low,
                   Index high, mlir::Value entries) const;
  /// The values at the cells of a group, whose entries begin at `entries`:
  /// [rows][panel].
  void emitDiagonals(KernelBuilder &kernel, mlir::Value entries,
                     mlir::Value cells) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_OFFSETDIAGONALS_H
