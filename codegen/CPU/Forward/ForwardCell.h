//===- ForwardCell.h - The scores of a register tile ------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDCELL_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDCELL_H

#include "codegen/CPU/Forward/ScanSweep.h"
#include "codegen/Tiles/OffsetTile.h"
#include "codegen/Tiles/PiecewiseLinearTile.h"

namespace sextant::codegen {

/// Of a matrix unit: the products of the rows of a block, `keys`, with Q^T of a
/// panel, to the scores where the item stands.
void multiplyBlock(const ForwardItem &item, mlir::Value keys,
                   mlir::Value query);

/// Makes the scores of a group of keys and a panel of queries, from products in
/// registers to memory: S = K Q^T, payload, mask. Keys past the end are hidden.
class ForwardCell {
public:
  ForwardCell(ForwardItem &item, ScanSweep &sweep);

  void enterPanel() {
    query = item.ofPanel(item.query, launch.queryWords);
    if (launch.areFew) // of lanes without a query
      kernel.clear(item.at(square), launch.rows * launch.panel);
    sweep.enterPanel();
  }
  /// Tiled: makes the products of the panel with all keys of the block.
  void multiplyBlock(mlir::Value keys) {
    codegen::multiplyBlock(item, keys, query);
  }
  /// No query of the panel sees the group.
  void hide(Index group);
  /// Stores the scores and gives the maxima of the queries with them. `keys`
  /// are the rows of the block, of which the group begins at number `group`.
  KernelBuilder::Values emit(Index group, mlir::Value keys,
                             mlir::ValueRange maxima, const TileClass &tile);

private:
  KernelBuilder::Values getProducts(Index group, mlir::Value keys);
  KernelBuilder::Values emitScores(mlir::ValueRange products, Index group,
                                   bool isMasked, mlir::ValueRange maxima);
  mlir::Value emitScore(mlir::Value product, Index group, int64_t row,
                        int64_t vector, bool isMasked);

  ForwardItem &item;
  KernelBuilder &kernel;
  const ForwardLaunch &launch;
  ForwardPoint &point;
  ScanSweep &sweep;
  OffsetTile cells;
  PiecewiseLinearTile hinges;
  mlir::Value query; ///< Q^T of the panel
  int64_t square;    ///< of few queries: see emitDots
};

/// A register tile: the products of rows of keys with a panel of Q^T.
KernelBuilder::Values emitProducts(const ForwardItem &item,
                                   llvm::ArrayRef<TileRow> keys,
                                   mlir::Value query);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDCELL_H
