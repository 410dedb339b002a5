//===- AllHeadsForwardLoopNest.h - Forward of scores of all heads ---------===//
//
// Lanes are queries. One work item is a few panels of queries of one element of
// the batch, with all its heads:
//
//   Q of all heads: packed as for scalar scores, per panel of queries and head
//   for each block of keys, for each panel that sees some of it:
//     the window of its offsets
//     for each head: S = K Q^T
//     for each group of keys: functions of hinges of all heads; for each key,
//       for each vector of queries: the payload, S of all heads in registers;
//       then the mask
//     for each head: maximum, P = exp2, O^T = O^T * alpha + V^T P
//   O^T of all heads, divided by the sums
//
// The panels of an item share the keys and values of a block, which are those
// of all heads and come from beyond the second cache.
//
// A matrix unit makes the products of bf16: S of all keys of a block at once,
// and O^T of V as V^T, as of scalar scores (UnitProduct.h).
//
// Scores are in natural units up to the exponential.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSFORWARDLOOPNEST_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSFORWARDLOOPNEST_H

#include "codegen/CPU/Forward/ForwardLaunch.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Keys of a block: few, so that an item may have more queries.
constexpr int64_t allHeadsKeys = 32;

/// Panels of queries of an item with all of so many heads, at most: as many as
/// the bytes that pass ask for (CacheTraffic.h), as long as what the item keeps
/// of them, with a block's rows of K and V and its scores, stays in a second
/// cache.
int64_t countItemPanels(const ForwardLaunch &launch, int64_t heads);

/// The forward of an attention whose score payload is of all heads.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerAllHeadsForward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSFORWARDLOOPNEST_H
