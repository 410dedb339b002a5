//===- BackwardCuts.h - How a backward is cut into work items ---*- C++ -*-===//
//
// Keys of a head are cut into chunks of tiles, each with a copy of dQ. That is
// what a CPU needs. A GPU wants many more items, and where chunks alone would
// give them, copies of dQ would take more memory than all else: it cuts the
// blocks of queries as well, into parts that have copies of dK and dV. An item
// is one part of the queries with one chunk of the keys, so c chunks and p
// parts give c p items for c copies of dQ and p of dK and dV.
//
// Chunks and parts take turns along tiles and blocks: under a causal mask all
// items have about the same work.
//
// With scores of all heads an item is of all heads, and has the tiles of keys
// that it keeps at once while the queries pass (BackwardShape's tiles). On a
// CPU such items add to few copies of dQ in turn (ItemOrder.h): a copy for each
// would have to be cleared and added up, and all of them would grow with the
// square of the length.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARDCUTS_H
#define SEXTANT_CODEGEN_CPU_BACKWARDCUTS_H

#include "codegen/CPU/Backward/BackwardLaunch.h"
#include "codegen/Emit/Sizes.h"

namespace sextant::codegen {

/// Numbers of type index, from the shape only.
struct BackwardCuts {
  mlir::Value chunks; ///< of the tiles of keys
  mlir::Value parts;  ///< of the blocks of queries; 1 unless a target cuts them
  mlir::Value sums;   ///< items of a head: chunks times parts
  /// Where items take turns: how many there are of an element of the batch.
  /// `chunks` are then copies of dQ, and sums have turns of their own.
  mlir::Value items = {};
};

/// The cuts of a head of the keys, or, of a launch with scores of all heads, of
/// an element of the batch.
BackwardCuts cutBackward(const Lowering &lowering, const BackwardShape &shape,
                         bool ofAllHeads);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARDCUTS_H
