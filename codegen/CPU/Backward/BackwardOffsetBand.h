//===- BackwardOffsetBand.h - Rows of offsets in the backward ---*- C++ -*-===//
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
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H

#include "codegen/CPU/Backward/BackwardVisibility.h"

namespace sextant::codegen {

/// The products of a block of queries with rows of offsets, and their
/// gradients.
class BackwardOffsetBand {
public:
  BackwardOffsetBand(BackwardItem &at, BackwardPoint &point,
                     SeenPanels &panels);

  /// Before the first block of an item.
  void clear();
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
  struct Product {
    mlir::Value addend;    ///< a row
    mlir::Value queries;   ///< rows as they entered, with the addend
    mlir::Value entries;   ///< a window of them per row, `windowStride` apart
    mlir::Value gradients; ///< as a tile of scores
  };

  Index getWindow(Index group);
  void emitEntries(size_t number, Index group, Index firstVector, Index vector,
                   int64_t vectors);
  void addQueryGradient(size_t number);
  void addRowGradient(size_t number);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const OffsetShape &offsets = launch.offsetShape;
  BackwardPoint &point;
  SeenPanels &panels;
  llvm::SmallVector<Product> products;
  int64_t windowStride;
  mlir::Value ends; ///< i64 per group: the first vector that is not there
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDOFFSETBAND_H
