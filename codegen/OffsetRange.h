//===- OffsetRange.h - Offsets of given positions ---------------*- C++ -*-===//
//
// Under given positions the offsets in use are known when an attention runs.
// One launch finds them, per call:
//
//   i32 [3]: the smallest offset in use, the largest, and 1 if tables of
//            offsets hold all between them, else 0 (the others say nothing
//            then: they need not fit)
//
// A table holds `getTableSize` offsets. Where it does not hold all, it is not
// filled, and its values are computed in the tiles (codegen/CPU/OffsetCells.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_OFFSETRANGE_H
#define SEXTANT_CODEGEN_OFFSETRANGE_H

#include "codegen/KernelFunction.h"
#include "codegen/LowerAttention.h"

namespace sextant::codegen {

/// Entries of a table of offsets per head, under given positions: four times
/// the lengths of both sides.
inline constexpr int64_t offsetsPerRow = 4;

/// Creates the buffer, the launch that fills it and its kernel. An offset is in
/// use if an element of the batch has a query and a key of that offset, or of a
/// smaller and of a larger one.
mlir::Value launchOffsetRange(const Lowering &lowering);

/// An entry of the buffer, which is operand `range` of a kernel (i32).
mlir::Value loadOffsetRange(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned range, int64_t entry);

/// Whether tables of offsets hold all offsets in use (i1).
mlir::Value emitHasOffsetTables(KernelBuilder &kernel, ArgumentBlock &arguments,
                                unsigned range);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_OFFSETRANGE_H
