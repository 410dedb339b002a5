//===- AllHeadsUnitProducts.h - Products of a matrix unit -------*- C++ -*-===//
//
// The products of a backward of scores of all heads where a matrix unit makes
// them, of rows of bf16. Masks and payloads stay as they are: S and dP come to
// the tiles of f32 that they read, and what they leave there is rounded to
// pairs of bf16 for the products of the second half.
//
// Of f32 vectors make them: what is kept of many heads as terms (Terms.h) is
// more than a second cache (tools/bench/results/2026-11-28-amx.md).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSUNITPRODUCTS_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSUNITPRODUCTS_H

#include "codegen/CPU/AllHeads/AllHeadsBlock.h"
#include "codegen/CPU/Backward/BackwardPacking.h"

namespace sextant::codegen {

/// The target as kernels of all heads use it for such elements: operands of
/// bf16 are products of its matrix unit, if it has one, or else are computed
/// with in f32.
VectorTarget getTargetOfAllHeads(const VectorTarget &target,
                                 mlir::Type element);

/// Of the head of the item, with the queries of a block that see some key of
/// the tile, [low, high), a range of whole groups.
class AllHeadsUnitProducts {
public:
  AllHeadsUnitProducts(AllHeadsTiles &tiles, KeyTile &keys,
                       QueryBlock &queries);

  /// S and dP - delta, of whole steps of the unit.
  void emitProducts(Index low, Index high);
  /// Adds to dV, dK and dQ.
  void addGradients(Index low, Index high);

private:
  /// Whole steps that hold a range of queries.
  struct Steps {
    Index firstRow, rows;
    Index first, words; ///< in pairs of queries
  };
  Steps getSteps(Index low, Index high) const;
  void multiply(const Steps &steps, mlir::Value streamed,
                const KeyTile::Operand &packed, mlir::Value sums, bool adds);
  void startAtDelta(const Steps &steps);
  void storePairs(const Steps &steps, Index low, Index high);
  void addKeyGradient(const Steps &steps, mlir::Value columns,
                      mlir::Value pairs, const KeyTile::Operand &packed);
  void addQueryGradient(const Steps &steps);

  AllHeadsTiles &tiles;
  KeyTile &keys;
  QueryBlock &queries;
  BackwardItem &at = tiles.at;
  KernelBuilder &kernel = at.kernel;
  const BackwardShape &shape = at.shape;
  mlir::Value probabilities, gradients; ///< pairs of queries, [queries/2][keys]
  mlir::Value gradientRows;             ///< pairs of keys, [queries][keys / 2]
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSUNITPRODUCTS_H
