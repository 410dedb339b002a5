//===- BackwardOffsetBand.h - Query rows times rows of offsets --*- C++ -*-===//
//
// Lanes are keys, so the entries of a query row's products follow each other:
// a group of rows has one window of entries, in which each row is read one lane
// before the row before it. Windows are computed panel by panel, where some
// cell is seen.
//
// The cotangents of a block lie as a tile of their own. Read along its
// diagonals it is what both gradients multiply: of query rows with the rows of
// offsets, of the rows of offsets with query rows.
//
// Where a clipped index is the same for a whole cell, so is the product of each
// query: it is made once per block. The cotangents of such cells are summed
// over the keys before they are multiplied.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H

#include "codegen/CPU/Backward/BackwardVisibility.h"
#include <array>

namespace sextant::codegen {

/// The products of a block of queries with rows of offsets, and their
/// gradients.
class BackwardOffsetBand {
public:
  BackwardOffsetBand(BackwardItem &at, BackwardPoint &point,
                     SeenPanels &panels);

  /// Before the first block of an item, for the query heads of its group.
  void clear(Index firstHead, Index heads);
  /// Copies the query rows of the block as they entered, with what is added.
  void load();
  /// Makes the products of a cell, and tells payloads where they are.
  void emitProducts(Index group, Index panel);
  /// Tiles of cotangents of the block; hidden cells of them are zero.
  llvm::SmallVector<mlir::Value> getTiles() const;
  /// Adds the gradients of the block.
  void addGradients();

private:
  /// Of one of the products.
  struct QueryProduct {
    size_t number;         ///< among those of the plan
    mlir::Value addend;    ///< a row
    mlir::Value queries;   ///< rows as they entered, with the addend
    mlir::Value entries;   ///< a window of them per row, `windowStride` apart
    mlir::Value gradients; ///< as a tile of scores
    mlir::Value ends; ///< i64 per group: the first vector that is not there
    /// Of a clipped index, for both ends [queries][width]: the products with
    /// the row, in all lanes.
    std::array<mlir::Value, 2> atEnds;
  };

  Index getWindow(Index group);
  mlir::Value getEndAt(const QueryProduct &product, Index group);
  void emitEntries(const QueryProduct &product, Index group, Index firstVector,
                   Index vector, int64_t vectors);
  std::optional<OffsetEnds> getEnds(const QueryProduct &product);
  SeenPanels::Range<Index> getBand(const QueryProduct &product, Index group);
  SeenPanels::Range<Index> getSeenBand(const QueryProduct &product,
                                       Index group);
  void emitEnds(const QueryProduct &product);
  void emitWindow(const QueryProduct &product, Index group, Index panel);
  void sumEnds(const QueryProduct &product);
  void addEndGradients(const QueryProduct &product, Index group,
                       SeenPanels::Range<Index> seen, int64_t end);
  void addQueryGradient(const QueryProduct &product);
  void addRowGradient(const QueryProduct &product);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const OffsetShape &offsets = launch.offsetShape;
  BackwardPoint &point;
  SeenPanels &panels;
  llvm::SmallVector<QueryProduct> products;
  int64_t windowStride;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H
