//===- OffsetRange.h - Offsets of given positions ---------------*- C++ -*-===//
//
// Under given positions the offsets in use are known when an attention runs.
// Tables run over the offsets of every axis that hoisted values ask for, the
// last axis fastest. One launch finds, per call, the range:
//
//   i32 [2 + 3 * axes]: the number of entries in use (what lies between the
//   smallest and the largest offset of each axis), 1 if tables hold them all
//   (else 0: the rest says nothing then), and of each axis the smallest offset,
//   the largest, and how many entries apart neighbours are;
//
// and a code per row, so that the entry of a score is one difference:
//
//   Ascending (lanes are keys):     code of the key - code of the query
//   Descending (lanes are queries): code of the query - code of the key
//
// Where neighbouring lanes are neighbours on the last axis so are their codes,
// and their entries are one vector in memory.
//
// A table holds `offsetsPerRow` times the rows of both sides. Where that is not
// enough, it is not filled, and its values are computed in the tiles
// (codegen/Tiles/OffsetTile.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_OFFSETRANGE_H
#define SEXTANT_CODEGEN_TABLES_OFFSETRANGE_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

/// Entries of a table of offsets per head, under given positions: four times
/// the lengths of both sides, which holds all offsets of a grid of up to three
/// axes.
inline constexpr int64_t offsetsPerRow = 4;

/// The axes that tables run over, in order; one at least.
llvm::SmallVector<int64_t> getOffsetAxes(const KernelPlan &plan);

/// Creates the buffers, the launch that fills them and its kernel. An offset is
/// in use if an element of the batch has a query and a key of that offset, or
/// of a smaller and of a larger one. Codes go on past the last row, which they
/// repeat, for `countCodePadding` rows.
OffsetBuffers launchOffsetRange(const Lowering &lowering, OffsetOrder order);
/// Codes behind the last row, as far as kernels load: to the end of a panel,
/// which has four vectors at most, and of a group of rows, which are fewer
/// than 64.
int64_t countCodePadding(const VectorTarget &target);

/// Entries of the buffer of the range, which is operand `range` of a kernel.
class OffsetRange {
public:
  OffsetRange(KernelBuilder &kernel, ArgumentBlock &arguments, unsigned range)
      : kernel(kernel), arguments(arguments), range(range) {}

  mlir::Value getCount() { return load(0); } ///< i32
  /// Whether tables of offsets hold all offsets in use (i1).
  mlir::Value emitHasTables();
  /// Of the axis at `place` of `getOffsetAxes` (i32).
  mlir::Value getLeast(int64_t place) { return load(2 + 3 * place); }
  mlir::Value getGreatest(int64_t place) { return load(3 + 3 * place); }
  mlir::Value getStep(int64_t place) { return load(4 + 3 * place); }

private:
  mlir::Value load(int64_t entry);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  unsigned range;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_OFFSETRANGE_H
