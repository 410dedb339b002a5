//===- PositionBounds.h - The range of given positions ----------*- C++ -*-===//
//
// Small buffers that launches before all others fill, where positions are
// given: the least and the greatest coordinate per axis, where a payload asks,
// and how far coordinates lie apart, where a check does.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_POSITIONBOUNDS_H
#define SEXTANT_CODEGEN_TABLES_POSITIONBOUNDS_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// i32 [4 axes]: per axis, least and greatest coordinate of the query, then of
/// the key; null if no payload asks, or if no positions are given.
mlir::Value launchBounds(const Lowering &lowering);

/// The checks of `pos.require_span`, and that offsets of given positions fit 32
/// bits. Where a device goes on before it knows, offsets wrap around: kernels
/// take any of 32 bits.
void emitSpanChecks(const Lowering &lowering);

/// An entry of the buffer of `launchBounds` (i32).
mlir::Value loadBound(KernelBuilder &kernel, mlir::Value buffer,
                      pos::Bound bound, pos::Side side, int64_t axis);

/// The bound of a side without given positions: that of its indices. `shift` is
/// the index of the first query.
Index getIndexBound(KernelBuilder &kernel, pos::Bound bound, pos::Side side,
                    Index shift, Index queries, Index keys);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_POSITIONBOUNDS_H
