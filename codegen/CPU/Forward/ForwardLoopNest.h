//===- ForwardLoopNest.h - The loop nest of the forward ---------*- C++ -*-===//
//
// Lanes are queries. One work item is a tile of queries of one head, cut into
// panels of one register tile's width:
//
//   Q: packed as Q^T, panel by panel, the scale folded in
//   for each block of keys that the item's queries are not all hidden from:
//     K, V: used in place where rows lie one behind the other, else copied:
//     the strides of products are constants
//     for each panel:
//       for each group of keys: S = K Q^T, score payload, mask, running maximum
//       P = exp2(S - maximum), its sum
//       O^T = O^T * alpha + V^T P
//   O^T: divided by the sum, transposed into rows
//
// Calls of few queries that want no gradient have other products, whose lanes
// are elements of rows, and an item has a panel for each of some heads that
// share keys: see FewQueries.h.
//
// Scores are in base 2 from the score payload on, so that P is one exp2.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLOOPNEST_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLOOPNEST_H

#include "codegen/CPU/Forward/ForwardLaunch.h"

namespace sextant::codegen {

/// Panels of an item, of `heads` heads of the whole batch with so many queries
/// and keys: up to `maxPanels`, fewer where a small problem would otherwise
/// have few items, and such that the tiles of a head are even. Every item
/// copies the keys and values again, so where they are copied items are larger,
/// and it reads them again, so where they are too long for the second cache
/// items have enough queries for the bytes that pass (CacheTraffic.h). A
/// function of the shape only.
Index getPanels(KernelBuilder &kernel, const ForwardLaunch &launch, Index heads,
                Index queries, Index keys);

/// Adds the kernel.
void createForwardKernel(const Lowering &lowering, llvm::StringRef suffix,
                         const ForwardLaunch &launch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLOOPNEST_H
