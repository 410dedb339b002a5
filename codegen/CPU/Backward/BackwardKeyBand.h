//===- BackwardKeyBand.h - Key rows times rows of offsets -------*- C++ -*-===//
//
// The mirror image of BackwardOffsetBand for products of the key: lanes are the
// rows that are multiplied. A panel of keys needs the products with as many
// entries as it has keys and the block has queries; each is computed once per
// block, where a group is seen, and read along diagonals.
//
// The cotangents of a block lie as a tile of their own, whose diagonals both
// gradients multiply: of key rows with the rows of offsets, of the rows of
// offsets with key rows.
//
// Where a clipped index is the same for a whole cell, so is the product of each
// key: it is made once per tile. The cotangents of such cells are summed over
// the queries of all blocks, and multiplied when the tile ends.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKEYBAND_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKEYBAND_H

#include "codegen/CPU/Backward/BackwardVisibility.h"
#include "codegen/Rows/OffsetDiagonals.h"
#include <array>

namespace sextant::codegen {

/// The products of a tile of keys with rows of offsets, and their gradients.
class BackwardKeyBand {
public:
  BackwardKeyBand(BackwardItem &at, BackwardPoint &point, SeenPanels &panels);

  /// Before the first tile of an item.
  void clear();
  /// Copies the key rows of the tile as they entered, with what is added, and
  /// clears their gradients.
  void loadTile();
  /// A block of queries begins.
  void load();
  /// A panel of the tile meets the block.
  void enterPanel(Index panel);
  /// Makes the products of a cell, and tells payloads where they are.
  void emitProducts(Index group, Index panel);
  /// Tiles of cotangents of the block; hidden cells of them are zero.
  llvm::SmallVector<mlir::Value> getTiles() const;
  /// Adds the gradients of the block.
  void addGradients();
  /// Adds what a tile has summed up.
  void endTile();

private:
  /// Of one of the products.
  struct KeyProduct {
    size_t number;         ///< among those of the plan
    mlir::Value addend;    ///< a row
    mlir::Value keys;      ///< rows as they entered, with the addend
    mlir::Value packed;    ///< likewise [panels][lanes of a row][panel]
    mlir::Value entries;   ///< [entries][panel]
    mlir::Value cells;     ///< [queries of a group][panel]
    mlir::Value gradients; ///< as a tile of scores
    mlir::Value end;       ///< i64: the entry after those that are there
    /// Of a clipped index, for both ends [keys]: the products with the row, and
    /// the sums of their cotangents.
    std::array<mlir::Value, 2> atEnds, endGradients;
  };

  Index getOrigin();
  OffsetPanel getPanel(const KeyProduct &product, Index panel);
  std::optional<OffsetEnds> getEnds(const KeyProduct &product);
  Index getEntry(const KeyProduct &product, int64_t end);
  SeenPanels::Range<Index> getBand(const KeyProduct &product, Index group);
  void emitEnds(const KeyProduct &product);
  void emitEntries(const KeyProduct &product, Index group, Index panel);
  void sumEnds(const KeyProduct &product);
  void addEndGradients(const KeyProduct &product, int64_t end);
  void findSeen(const KeyProduct &product);
  void addKeyGradient(const KeyProduct &product);
  void addRowGradient(const KeyProduct &product);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const OffsetShape &offsets = launch.offsetShape;
  BackwardPoint &point;
  SeenPanels &panels;
  llvm::SmallVector<KeyProduct> products;
  /// Rows of zeros on both sides of a tile of cotangents.
  int64_t edge;
  Index firstEntry = 0; ///< of the products of the panel
  /// Of the cells of the block that have products of their own: columns, and
  /// queries less keys, both within it.
  KernelBuilder::Range columns = {0, 0}, diagonals = {0, 0};
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKEYBAND_H
