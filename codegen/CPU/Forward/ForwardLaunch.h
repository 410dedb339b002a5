//===- ForwardLaunch.h - The main launch of a forward -----------*- C++ -*-===//
//
// Ties together the plan, the sizes and the operands of the main launch of the
// forward, so that its parts agree on them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLAUNCH_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLAUNCH_H

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/HoistTable.h"
#include "codegen/Tiles/HeadPlace.h"
#include "codegen/Tiles/RowParts.h"
#include "codegen/Tiles/Terms.h"
#include "codegen/Tiles/UnitProduct.h"

namespace sextant::codegen {

/// The main launch of a forward: sizes that are fixed when its kernel is
/// compiled, and numbers of `operands`.
struct ForwardLaunch {
  ForwardLaunch(const KernelPlan &plan, const VectorTarget &target,
                mlir::Type element, llvm::ArrayRef<int64_t> headDims,
                llvm::ArrayRef<int64_t> valueDims);

  /// The same of so few queries, at most `mostFewQueries`, that other products
  /// are faster (FewQueries.h), of f32; none where there are products of
  /// another kind.
  std::optional<ForwardLaunch> ofFewQueries(const VectorTarget &target) const;

  static constexpr int64_t leastPanels = 6;
  /// Keys of a block where near memory is short, at least: what a block does
  /// once, such as scaling the output, is then a sixteenth of its products.
  static constexpr int64_t leastKeys = 16;
  /// Queries of an item, at most; where they are few, those of all its heads.
  int64_t countQueries() const { return maxPanels * panel; }
  /// Words of a copied row of Q, before it is packed.
  int64_t getCopiedQueryWords() const { return areFew ? queryWords : keyWords; }
  /// Elements of a row, of pairs, that products take together.
  int64_t countTogether() const { return isTiled ? UnitProduct::depth : 2; }
  /// Rows of keys that products of queries and keys take together.
  int64_t countKeysTogether() const {
    return isTiled ? UnitProduct::block : rows;
  }

  const KernelPlan &plan;
  mlir::Type element; ///< of q, k, v and outputs
  /// Products are dots of pairs of bf16.
  bool pairs;
  /// Products are those of a matrix unit, of whole tiles (UnitProduct.h): S of
  /// a block at once, and V as V^T. Rows of pairs have the padding of their
  /// products; those of f32 are split into terms.
  bool isTiled;
  RowParts headParts; ///< of query and key: the operand, then columns
  RowParts values;    ///< the value operands, side by side
  int64_t headDim, valueDim;
  /// The register tile: rows (keys, or columns of V) by vectors of queries.
  int64_t rows, vectors, panel;
  int64_t keys = 128;              ///< of a block
  int64_t maxPanels = leastPanels; ///< of an item
  /// Panels of which a block has the scores at the same time: their products
  /// follow each other, and so do their exponentials. A matrix unit that has
  /// rested for a third of a microsecond works at half its speed for as long
  /// again (tools/bench/results/2026-11-28-amx.md). One where products are so
  /// short that scores in the first cache are worth more.
  int64_t panelsTogether = 1;
  /// Tiles of scores [keys][panel] in scratch memory, and how far apart.
  int64_t scoreTiles = 1, scoreStride = 0;
  /// 32-bit words of a row of Q, of K and V as products read them or, where
  /// they have terms, as they are copied, and rows of O^T; padded to vectors.
  int64_t queryWords, keyWords, valueWords, outputRows;
  /// K or V can never be used in place.
  bool copiesKeys, copiesValues;
  /// Lanes are threads with near memory: rows are copied there, several at
  /// once, and what rows of a register tile leave is stored behind all of them.
  bool isNear = false;
  /// Lanes of products are elements of rows: see FewQueries.h.
  bool areFew = false;
  int64_t mostFewQueries = 0;
  /// These are read as bf16, 32-bit words of two, and widened in registers.
  bool widensRows = false;
  /// Whether rows of K and V are copied as bf16, or stay it.
  bool hasRowsOfBf16() const { return pairs || widensRows; }
  /// Whether products are of pairs of bf16: of rows of them, or of the terms of
  /// rows of f32.
  bool hasPairs() const { return pairs || isTiled; }
  bool hasTerms() const { return isTiled && !pairs; }
  /// How many operands of bf16 stand for one.
  int64_t countTerms() const { return hasTerms() ? countOfTerms : 1; }
  /// Words of a row of K, or of Q, as tiles read it, of one term.
  int64_t getTiledRowWords() const {
    return hasTerms() ? getTermWords(headDim) : keyWords;
  }
  /// Words from a term of V^T to the next.
  int64_t getValueTermWords() const { return keys / 2 * outputRows; }
  /// Rows of scores that become weights at a time. Those behind the last key,
  /// to a multiple of these, are hidden.
  int64_t softmaxRows = 2;

  OffsetShape offsetShape;

  KernelOperands operands;
  SiteOperands sites;
  llvm::SmallVector<unsigned> outputs; ///< one per value
  /// As plan.offsetProducts: rows of offsets, of products of the key with
  /// entries as lanes.
  llvm::SmallVector<unsigned> offsetRows;
  /// Likewise, of clipped indices: see OffsetEnds.
  llvm::SmallVector<std::optional<unsigned>> offsetEnds;
  unsigned lse = 0;
  /// Of the softmax, for the backward, where it is wanted.
  std::optional<unsigned> statistics;

private:
  ForwardLaunch withoutPairs(VectorTarget target) const;
  void fitNearMemory(const VectorTarget &target);
  int64_t countNearWords(const VectorTarget &target) const;
};

/// Adds what every forward of the `pos.attention` reads: query, key, values,
/// and `tables` with the rest of what payloads read.
void addForwardReads(const Lowering &lowering, const HoistTables &tables,
                     ForwardLaunch &launch, LaunchOperands &operands);

/// Allocates the results of the `pos.attention` as what the launch writes, and
/// completes the operands of `launch`.
void addForwardWrites(const Lowering &lowering, ForwardLaunch &launch,
                      LaunchOperands &operands);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDLAUNCH_H
