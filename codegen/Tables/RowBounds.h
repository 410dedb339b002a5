//===- RowBounds.h - Least and greatest numbers of rows ---------*- C++ -*-===//
//
// Given positions and indices are data, and some launches need to know the
// least and the greatest of them. A launch finds those of ranges of rows, each
// an item, and what reads its buffer joins the ranges. These are at most as
// many as `countRanges` gives, however many rows there are.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ROWBOUNDS_H
#define SEXTANT_CODEGEN_TABLES_ROWBOUNDS_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Least and greatest number. Of no rows: the greatest and the least of i32.
struct NumberBounds {
  Index least, greatest;
};

/// Whose rows ranges are cut from.
enum class RowBatch {
  Each, ///< those of each element of the batch: i32 [B, ranges, 2 columns]
  All   ///< those of all elements, one after the other: i32 [ranges, 2 columns]
};

/// Launches a kernel `suffix` that finds bounds of some columns of `rows`, i32
/// or i64 [B, L, C], or of [B, L] as of one column. A number beyond i32 counts
/// as the nearest of i32.
mlir::Value launchRowBounds(const Lowering &lowering, llvm::StringRef suffix,
                            mlir::Value rows, llvm::ArrayRef<int64_t> columns,
                            RowBatch batch);

/// Joins the ranges of a column: the one at `place` of those that the launch
/// was given. `element` is that of the batch where each has ranges of its own.
NumberBounds joinRowBounds(KernelBuilder &kernel, ArgumentBlock &arguments,
                           unsigned bounds, std::optional<Index> element,
                           int64_t place);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ROWBOUNDS_H
