//===- RowRanges.h - Ranges of what masks know of rows ----------*- C++ -*-===//
//
// A mask that uses values of rows (a hoisted vector over queries or keys, a
// given position) has classes of tiles only if the ranges of these values over
// blocks of rows are known. One launch per value finds them, once per call.
//
// Buffers are contiguous [2, B', H', blocks], f32 or i32: the smallest and the
// largest value of every `rowsPerRange` rows; B' and H' are those of the value
// (a position has one head). Conditions count as 0 and 1. Floating point: both
// are NaN where a row is.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ROWRANGES_H
#define SEXTANT_CODEGEN_TABLES_ROWRANGES_H

#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

/// Rows of a range: the rows of a register tile, or more.
inline constexpr int64_t rowsPerRange = 8;

/// What a mask takes from the rows of one side.
struct RowSource {
  pos::Side side;
  const Hoisted *hoisted = nullptr; ///< null: a given position
  int64_t axis = 0;                 ///< of the position
};

/// What a mask reads per row, in a fixed order and each once; nothing without a
/// mask.
llvm::SmallVector<RowSource> getRowSources(const KernelPlan &plan);

/// Creates the buffers, the launches that fill them and their kernels. Gives
/// one buffer per source; `buffers` are those of the hoisted values.
llvm::SmallVector<mlir::Value>
launchRowRanges(const Lowering &lowering, llvm::ArrayRef<mlir::Value> buffers);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ROWRANGES_H
