//===- ForwardKernel.h - The loop nest of the forward -----------*- C++ -*-===//
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
// Scores are in base 2 from the score payload on, so that P is one exp2.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDKERNEL_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDKERNEL_H

#include "codegen/CPU/Forward/ScoreSite.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/RegisterTile.h"
#include "codegen/Tiles/RowParts.h"

namespace sextant::codegen {

/// Sizes that are fixed when the kernel is compiled, and its operands.
struct ForwardTask {
  ForwardTask(const KernelPlan &plan, const VectorTarget &target,
              mlir::Type element, llvm::ArrayRef<int64_t> headDims,
              llvm::ArrayRef<int64_t> valueDims);

  static constexpr int64_t leastPanels = 6;
  /// Queries of an item, at most.
  int64_t countQueries() const { return maxPanels * panel; }

  const KernelPlan &plan;
  mlir::Type element; ///< f32 or bf16
  /// Products are dots of pairs of bf16.
  bool pairs;
  RowParts headParts; ///< of query and key: the operand, then columns
  RowParts values;    ///< the value operands, side by side
  int64_t headDim, valueDim;
  /// The register tile: rows (keys, or columns of V) by vectors of queries.
  int64_t rows, vectors, panel;
  int64_t keys = 128;              ///< of a block
  int64_t maxPanels = leastPanels; ///< of an item
  /// Tiles of scores [keys][panel] in scratch memory, and how far apart.
  int64_t scoreTiles = 1, scoreStride = 0;
  /// 32-bit words of a row of Q, of K and V as products read them, and rows of
  /// O^T; padded to vectors.
  int64_t queryWords, keyWords, valueWords, outputRows;
  /// K or V can never be used in place.
  bool copiesKeys, copiesValues;

  OffsetShape offsetShape;

  KernelOperands operands;
  SiteOperands sites;
  llvm::SmallVector<unsigned> outputs;    ///< one per value
  llvm::SmallVector<unsigned> offsetRows; ///< as plan.offsetProducts
  unsigned lse = 0;
  /// Of the softmax, for the backward, where it is wanted.
  std::optional<unsigned> statistics;
};

/// Adds the kernel.
void createForwardKernel(const Lowering &lowering, llvm::StringRef suffix,
                         const ForwardTask &task);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDKERNEL_H
