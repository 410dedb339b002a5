//===- BackwardLaunch.h - The main launch of a backward ---------*- C++ -*-===//
//
// Ties together the plan, the sizes and the operands of the main launch of the
// backward, so that its parts (point, sums, kernel, launches) agree on them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLAUNCH_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLAUNCH_H

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/PayloadGradients.h"
#include "codegen/Rows/RowsApart.h"
#include "codegen/Tables/AllHeadsWeights.h"
#include "codegen/Tiles/BackwardShape.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// The main launch of a backward. Numbers are those of `operands`; none where
/// the attention has no such tensor.
struct BackwardLaunch : PayloadSums {
  BackwardLaunch(const KernelPlan &plan, const VectorTarget &target,
                 mlir::Type element, llvm::ArrayRef<int64_t> headDims,
                 llvm::ArrayRef<int64_t> valueDims)
      : plan(plan), shape(target, element, headDims, valueDims),
        element(element), offsetShape(target, headDims.front()) {}

  const KernelPlan &plan;
  BackwardShape shape;
  mlir::Type element; ///< of q, k, v and their gradients
  OffsetShape offsetShape;
  KernelOperands operands;
  SiteOperands sites; ///< query, key, value and what payloads read

  llvm::SmallVector<unsigned> outputGradients; ///< one per value
  /// See RowStatistics, of Lq rounded up to `BackwardShape::paddedRows`.
  unsigned negativeShift = 0, inverseSum = 0, negativeDelta = 0;
  unsigned keyGradient = 0;
  llvm::SmallVector<unsigned> valueGradients;
  /// In place of these where items have parts of the queries: gradients of
  /// mapped rows, with their columns, [parts, B, heads of keys, Lk rounded up
  /// to tiles, row] x f32; one of values each.
  PartialSum keyRows;
  llvm::SmallVector<PartialSum> valueRows;

  /// Where items take turns (ItemOrder.h), i64 that are zero at first: how many
  /// items have been begun, [1], and how many blocks of queries an item has
  /// done with, [B, items].
  struct Order {
    /// Of dQ: each is cleared, added to and added up, so with two a backward
    /// takes 0.95 to 0.98 of its time with four; with one, two threads wait for
    /// each other.
    static constexpr int64_t copies = 2;
    /// Sums over scores are large where they are of offsets; so many threads
    /// have one each.
    static constexpr int64_t mostSums = 16;

    unsigned begun, progress;
  };
  std::optional<Order> order;

  // Cleared by their items (of rows of offsets what is seen): [chunks, B, H,
  // rows, row] x f32.

  /// Lq rounded up likewise, rows of d. Where items take turns there are
  /// Order::copies.
  PartialSum queryGradient;
  /// Likewise, padded rows of the table: the sums of P per row of those of
  /// plan.weightedRows, where their gradients are wanted, and gradients of
  /// products of query rows with the tables of plan.rowTables (see
  /// RowProducts.h). Those of products of key rows are [parts, B, heads of
  /// keys, padded keys / width, padded rows of the table, width], zero at
  /// first: a key belongs to one item of each part.
  llvm::SmallVector<PartialSum> bucketGradients, rowProductGradients;
  /// As plan.offsetProducts: sums of the gradients of the rows that are
  /// multiplied, and of rows of offsets, where wanted. Those of key rows are
  /// [parts, B, heads of keys, Lk rounded up to panels, row].
  llvm::SmallVector<PartialSum> offsetSideGradients, offsetRowGradients;
  /// Whether lanes name the row of a sum of the query's that they add to.
  bool addsToNamedRows() const {
    return llvm::any_of(plan.rowTables,
                        [](const auto &table) {
                          return table.side == pos::Side::query;
                        }) ||
           llvm::any_of(bucketGradients, [](const PartialSum &sum) {
             return static_cast<bool>(sum);
           });
  }
  /// Those of query rows, all but the first.
  llvm::SmallVector<unsigned> getClearedSums() const {
    llvm::SmallVector<unsigned> cleared;
    for (auto [table, sum] :
         llvm::zip_equal(plan.rowTables, rowProductGradients))
      if (table.side == pos::Side::query)
        cleared.push_back(*sum);
    auto append = [&](const PartialSum &sum) {
      if (sum)
        cleared.push_back(*sum);
    };
    for (auto [product, sum] :
         llvm::zip_equal(plan.offsetProducts, offsetSideGradients))
      if (product.table.side == pos::Side::query)
        append(sum);
    llvm::for_each(bucketGradients, append);
    return cleared;
  }
  /// [3 * scans, B, H, Lq rounded up likewise] x f32: see
  /// BackwardScans::State.
  unsigned scanState = 0;
  /// As plan.offsetProducts: the rows of offsets, of products of the query also
  /// transposed.
  llvm::SmallVector<unsigned> offsetRows, offsetColumns;
  /// Likewise: which blocks of them are seen.
  llvm::SmallVector<unsigned> offsetSeen;
  /// Likewise, of clipped indices: see OffsetEnds.
  llvm::SmallVector<std::optional<unsigned>> offsetEnds;

  /// Of a score payload of all heads, else null; and the operand that holds
  /// them.
  const AllHeadsWeights *weights = nullptr;
  unsigned packed = 0;
  /// Of such a payload: query rows and those of dO, where they may be read in
  /// place.
  std::optional<RowsApart> queriesApart, outputGradientsApart;

  /// Entries that an offset table has beyond its offsets on each side.
  int64_t tablePadding() const {
    return 2 * (weights ? shape.queries + shape.keys : shape.keys);
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLAUNCH_H
