//===- BackwardCell.h - P and dS of a register tile -------------*- C++ -*-===//
//
// For a group of rows and a panel of keys:
//
//   S = Q K^T, P = exp(score(S) - shift) / sum
//   dP = dO V^T, dS = the score's pullback of P (dP - delta)
//
// P and dS are left in the tiles of the block, as products and sums read them;
// a hidden cell of them is zero.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDCELL_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDCELL_H

#include "codegen/CPU/Backward/BackwardPacking.h"
#include "codegen/CPU/Backward/BackwardVisibility.h"
#include "codegen/CPU/Backward/GradientSums.h"

namespace sextant::codegen {

/// P and dS of a block as dV, dK (f32 rows, or pairs of rows) and dQ read them,
/// and dS as f32, for sums.
struct BlockTiles {
  mlir::Value probabilities, scoreGradients, scoreGradientRows, gradientTile;
};

/// Makes S, P, dP and dS of one register tile.
class BackwardCell {
public:
  BackwardCell(BackwardItem &at, const KeyTile &keys, const QueryBlock &queries,
               BackwardPoint &point, BackwardVisibility &visibility,
               GradientSums &sums, const ScoreForm &form);

  /// Tiled: makes S and dP of all rows of the block and a panel.
  void multiplyPanel(Index panel);
  /// `isWhole`, an i1: whether all scores of the cell are visible.
  void emit(Index group, Index panel, mlir::Value isWhole);
  /// A hidden cell is zero wherever a product or a sum may read it: in the
  /// tiles of the block and in `others`.
  void clear(Index group, Index panel, llvm::ArrayRef<mlir::Value> others);
  const BlockTiles &getTiles() const { return tiles; }

private:
  using Values = KernelBuilder::Values;
  /// A vector of scores of the cell: its product, and where it is in the cell.
  struct ScoreVector {
    int64_t vector;
    mlir::Value product;
    Index inCell;
  };

  /// Whether payloads stand in a loop over the rows of a cell and take products
  /// from memory. A payload with a scan is long, and it is written once for
  /// each sweep, with and without mask, and once more for rows that are done:
  /// unrolled as well, it would take seconds to compile. What adds to sums of
  /// rows that lanes name is written in three ways, for lanes that name one
  /// row, neighbouring ones or any.
  bool rollsRows() const {
    return !launch.plan.scans.empty() ||
           (kernel.target.wantsShortCode && launch.addsToNamedRows());
  }
  /// Whether what a row leaves is stored behind all rows of the cell. A store
  /// keeps the loads behind it back until all threads have met, and so would
  /// keep each row waiting for those before it.
  bool storesLast() const { return shape.isNear && !rollsRows(); }
  /// Whether the score payload's pullback needs the score.
  bool keepsScores() const { return launch.plan.score && !form.isAdditive; }
  void forRows(llvm::function_ref<void(Index row)> body);
  ScoreVector enterPoint(mlir::ValueRange products, mlir::Value memory,
                         Index row, int64_t step);
  void keepProducts(mlir::ValueRange products, mlir::Value memory);
  Values loadCell(mlir::Value memory);
  mlir::Value getProducts(mlir::Value memory, Index group, Index panel);
  Values emitProduct(const QueryBlock::Operand &streamed,
                     const KeyTile::Operand &packed, Index group, Index panel,
                     mlir::ValueRange initial);
  mlir::Value loadStatistics(unsigned tensor, Index group, Index row);
  Values emitScoreProducts(Index group, Index panel);
  Values emitSlopeProducts(Index group, Index panel);
  void findVisible(bool isMasked);
  void emitProbabilities(mlir::ValueRange products, Index group, Index panel,
                         bool isMasked);
  void emitScoreGradients(mlir::ValueRange products, Index group, Index panel,
                          bool isMasked);
  void storeScoreGradient(mlir::Value gradient,
                          llvm::ArrayRef<HoistCotangent> cotangents, Index cell,
                          Index place);
  mlir::Value addWeightedRows(mlir::Value gradient, mlir::Value p);
  mlir::Value getPairs(mlir::Value tile, Index group, Index panel,
                       int64_t keysPerWord = 1);
  void storePairs(mlir::ValueRange cell, mlir::Value pairs);
  void storePair(mlir::Value low, mlir::Value high, Pairs pairs,
                 mlir::Value to);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const KeyTile &keys;
  const QueryBlock &queries;
  BackwardPoint &point;
  BackwardVisibility &visibility;
  GradientSums &sums;
  const ScoreForm &form;
  BlockTiles tiles;
  mlir::Value cellProbabilities, cellScores, cellSlopes;
  mlir::Value tileScores, tileSlopes; ///< S and dP [panels][queries][panel]
  Values probabilities; ///< of the cell, where they are stored last
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDCELL_H
