//===- BackwardKernel.h - The loop nest of the backward ---------*- C++ -*-===//
//
// Lanes are keys. One work item is (batch, head of the keys, chunk of key
// tiles); its tiles run in order:
//
//   for each tile of keys:
//     K and V: copied as rows, packed as K^T and V^T, and K in slabs of the
//       lanes that a register tile of dQ has; clear dK^T, dV^T
//     for each query head of the group:
//       for each block of queries that the tile's keys are not hidden from:
//         Q and dO: copied as rows
//         for each panel of keys:
//           for each group of rows: S, P; dP - delta, dS
//           dV^T += dO^T P; dK^T += Q^T dS
//         dQ += dS K, slab by slab, read and written in the chunk's own sum
//         sums of the score payload's gradients
//     dK, dV: transposed into rows, row maps pulled back
//
// What a tile keeps stays in the second cache; Q, dO and dQ pass once per tile
// from beyond it (CacheTraffic.h counts them). Each cell, of a group of rows
// and a panel of keys, asks for its share of those that come next.
//
// Copies make rows contiguous, padded with zeros and in one type, so no product
// has an edge: rows of the strangest strides cost the same, as do row maps.
//
// With dot products of bf16, an element of a product is a 32-bit unit of two
// neighbours of its contraction: of lanes in S and dP, of queries in dV and dK
// (rows interleaved in pairs), of keys in dQ.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKERNEL_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKERNEL_H

#include "codegen/CPU/Backward/BackwardSite.h"
#include "codegen/CPU/Backward/GradientSums.h"
#include "codegen/Emit/ScratchLayout.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Tiles/HingeCells.h"
#include "codegen/Tiles/OffsetCells.h"
#include "codegen/Tiles/ScoreForm.h"
#include "codegen/Tiles/TileMask.h"

namespace sextant::codegen {

class BackwardKernel {
public:
  BackwardKernel(KernelBuilder &kernel, ArgumentBlock &arguments,
                 const BackwardTask &task, ScratchLayout &layout,
                 mlir::Value scratch);

  static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                            const BackwardTask &task);
  void emitItem(const Item &item);

protected:
  using Values = KernelBuilder::Values;

  /// An operand of the keys, packed as [panels][row][panel] (units), and its
  /// gradient likewise (f32).
  struct Packed {
    mlir::Value transposed, gradient;
  };
  /// Rows of a block of queries: `rows` to contract along a row, `columns` to
  /// contract along the queries.
  struct Streamed {
    mlir::Value rows, columns;
  };
  /// Of a block of queries and one of the products with rows of offsets.
  struct OffsetBlock {
    mlir::Value addend;   ///< a row
    mlir::Value queries;  ///< rows as they entered, with the addend
    mlir::Value products; ///< a window of entries per row, `windowStride` apart
    mlir::Value gradients; ///< of the products, as a tile of scores
  };
  /// Of a rectangle of scores: whether all of it exists and is visible, and
  /// whether some of it may be.
  struct Visibility {
    mlir::Value all, some;
  };
  /// Elements of `row` lanes in 32-bit words, in and out of products.
  int64_t getWords(int64_t row) const { return task.shape.dot ? row / 2 : row; }

  // In BackwardPacking.cpp.
  void beginTile();
  void endTile();
  void beginBlock();
  RowCopy getCopy(unsigned tensor, Index first, Index count, int64_t dim,
                  int64_t row, llvm::ArrayRef<RowMap> maps, RowSite &rowSite,
                  mlir::Value to);
  void copyKeys(mlir::Value to);
  void copyQueries();
  void copyParts(llvm::ArrayRef<unsigned> tensors, Index first, Index count,
                 llvm::ArrayRef<RowMap> maps, RowSite &rowSite, mlir::Value to);
  void packTile(mlir::Value rows, int64_t words, double scale, mlir::Value to);
  void interleaveRows(mlir::Value rows, Index count, int64_t row,
                      mlir::Value to);
  void packSlabs(mlir::Value rows, Index count, mlir::Value to);
  void forEachSlab(llvm::function_ref<void(Index lane, int64_t vectors)> body);
  mlir::Value getSlab(mlir::Value slabs, Index lane);
  void transposeGradient(mlir::Value gradient, int64_t row, double scale);
  void storeGradient(const RowPart &part, int64_t row,
                     llvm::ArrayRef<RowMap> maps, RowSite &rowSite,
                     unsigned source, unsigned tensor);
  void addColumnGradients();

  // In BackwardCell.cpp.
  void emitCell(Index group, Index panel, bool isMasked);
  void emitProbabilities(mlir::ValueRange products, Index group, Index panel,
                         bool isMasked);
  void emitScoreGradients(mlir::ValueRange products, Index group, Index panel,
                          bool isMasked);
  bool rollsRows();
  void keepProducts(mlir::ValueRange products, mlir::Value memory);
  Values loadCell(mlir::Value memory);
  void forRows(llvm::function_ref<void(Index row)> body);
  void findVisible(bool isMasked);
  void addHingeMoments();
  void clearCell(Index group, Index panel);
  mlir::Value emitVisible();
  Values emitProduct(const Streamed &streamed, const Packed &packed,
                     int64_t dim, int64_t row, Index group, Index panel,
                     mlir::ValueRange initial);
  mlir::Value loadStatistics(unsigned tensor, Index group, Index row);
  void storePairs(mlir::ValueRange cell, mlir::Value pairs, Index group,
                  Index panel);
  bool keepsScores();

  // In BackwardContextual.cpp.
  Index inScanOrder(Index place, Index count, int64_t step);
  void emitSweeps(Index firstHead, Index group);
  void emitCells(Index group, Index panel, bool isMasked);
  mlir::Value addWeightedRows(mlir::Value gradient, mlir::Value p);

  // In BackwardOffsets.cpp.
  void reserveOffsets(ScratchLayout &layout, mlir::Value scratch);
  void clearOffsets();
  void beginOffsetBlock();
  Index getWindow(Index group);
  void emitOffsetProducts(Index group, Index panel);
  void emitOffsetGradients();
  std::pair<Index, Index> getPanels(Index group);
  void emitOffsetQueryGradient(size_t number);
  void emitOffsetRowGradient(size_t number);

  // In FlashBackward.cpp.
  void clearInPlaceGradients();
  void emitTiles(Index firstHead, Index group);
  void emitHead();
  void emitBlock(mlir::Value isWhole);
  Values emitGroup(Index group, Index panel, const TileSide &panelKeys,
                   mlir::Value isWhole, mlir::ValueRange hull);
  TileSide enterRows(pos::Side side, Index first, int64_t unit);
  Visibility emitVisibility(const TileSide &query, Index queryEnd,
                            const TileSide &key, Index keyEnd);
  void accumulate(const Packed &packed, const Streamed &streamed,
                  mlir::Value scores, int64_t row, Index panel, Index low,
                  Index high);
  void prefetchShare(Index group, Index panel);
  void emitQueryGradient();

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardTask &task;
  const BackwardShape &shape;
  BackwardSite site;
  TileMask mask;
  OffsetCells cells;
  HingeCells hinges;
  RowSite querySite;
  GradientRowSite keySite, valueSite;
  GradientSums sums;
  ScoreForm form;

  // Memory of the item.
  mlir::Value rowsBuffer; ///< f32 rows of K, V, dK or dV
  mlir::Value keyRows;    ///< K in slabs, of rows or of pairs of rows
  mlir::Value mappedRow;  ///< f32, while a row is mapped
  Packed keys, values;
  Streamed queries, outputGradients;
  /// P and dS of a block as dV, dK (f32 rows, or pairs of rows) and dQ read
  /// them.
  mlir::Value probabilities, scoreGradients, scoreGradientRows;
  mlir::Value gradientTile; ///< dS as f32, for sums
  mlir::Value cellProbabilities, cellScores, cellSlopes;
  mlir::Value lowPanels, highPanels; ///< i64 per group of rows
  llvm::SmallVector<OffsetBlock> offsetBlocks;
  int64_t windowStride = 0;
  mlir::Value offsetEnds; ///< i64 per group: the first vector that is not there

  // Where the emitted code stands.
  Index batch = 0, kvHead = 0, chunk = 0, head = 0;
  Index firstKey = 0, keyCount = 0, panelCount = 0;
  Index firstQuery = 0, queryCount = 0, groupEnd = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDKERNEL_H
