//===- ForwardItem.h - One work item of the forward -------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H

#include "codegen/CPU/Forward/ForwardKernel.h"
#include "codegen/Tiles/HingeCells.h"
#include "codegen/Tiles/OffsetCells.h"
#include "codegen/Tiles/ScoreForm.h"
#include "codegen/Tiles/TileMask.h"

namespace sextant::codegen {

/// Places in scratch memory, in 32-bit words.
struct ForwardScratch {
  ForwardScratch(const ForwardTask &task, const VectorTarget &target);

  int64_t query;     ///< Q^T [panels][queryWords][panel]
  int64_t output;    ///< O^T [panels][outputRows][panel]
  int64_t maximum;   ///< [panels][panel], in the units of the scores
  int64_t sum;       ///< [panels][panel]
  int64_t scores;    ///< S, then P [keys][panel]
  int64_t rows;      ///< rows of Q, before they are transposed
  int64_t keys;      ///< copied rows of K
  int64_t values;    ///< copied rows of V
  int64_t pairs;     ///< rows of V, interleaved in pairs
  int64_t mappedRow; ///< one row of f32
  int64_t positions; ///< i32 [axes][panels * panel]
  int64_t cells;     ///< see OffsetCells.h, of a register tile
  int64_t hinges;    ///< see HingeCells.h, of a register tile
  int64_t scans;     ///< running sums [scans][panels * panel]
  int64_t lanes;     ///< two vectors
  int64_t results;   ///< of the softmax, for the backward: two per query
  // Of products with rows of offsets (ForwardOffsets.cpp), one after the other.
  int64_t offsetQueries;  ///< [panels][lanes of a row][panel]
  int64_t offsetProducts; ///< [entries][panel], `offsetSize` words
  int64_t offsetCells;    ///< [rows][panel]
  int64_t offsetRows;     ///< a vector of query rows
  int64_t offsetAddend;   ///< a row
  int64_t offsetEnd;      ///< i64: the entry after those that are there
  int64_t offsetSize;
  int64_t words;

  /// Buckets of `pos.weighted_rows` follow, one after the other: [panels][rows
  /// of the table][panel].
  Index getBuckets(KernelBuilder &kernel, ArgumentBlock &arguments,
                   const ForwardTask &task, size_t number) const;

private:
  int64_t reserve(int64_t count);
};

/// Emits the item at the insertion point of `kernel`.
class ForwardItem {
public:
  ForwardItem(KernelBuilder &kernel, ArgumentBlock &arguments,
              const ForwardTask &task, const ForwardScratch &scratch,
              mlir::Value memory);

  /// `outer` counts heads of all elements of the batch; `tile` the tiles of a
  /// head, of `panels` panels each.
  void emit(Index outer, Index tile, Index panels);

protected:
  using Values = KernelBuilder::Values;

  // ForwardPacking.cpp: operands in, results out.
  void packQueries();
  /// Packs the vector of queries that begins at row `first` of the tensor.
  void packVector(Index panel, Index lane, Index first);
  void clearVector(Index panel, Index lane);
  void prepareKeys();
  void prepareValues();
  mlir::Value prepareRows(unsigned tensor, int64_t dim,
                          llvm::ArrayRef<RowMap> maps, RowSite &site,
                          bool alwaysCopies, int64_t multiple, int64_t place,
                          int64_t rowWords);
  /// `first` counts rows of the item.
  void storePanel(Index panel, Index first);
  void addWeightedRows(Index panel);
  void storeOutput(Index panel, Index row, Index lane, Index count);

  // ForwardItem.cpp: the products and the softmax between them.
  void emitBlock();
  Index inScanOrder(Index place, Index count, int64_t step);
  void emitPanel(Index panel, const TileSide &rows, const TileClass &block);
  void prefetchShare(Index place, Index all);
  void hideGroup(Index group);
  void emitGroup(Index group, mlir::ValueRange maxima, const TileClass &tile,
                 Values &results);
  void finishScores(mlir::ValueRange products, Index group, bool isMasked,
                    Values &maxima);
  void finishRows(mlir::ValueRange products, Index group, bool isMasked,
                  Values &maxima);
  mlir::Value emitVisible(Index keyInBlock);
  mlir::Value emitScore(mlir::Value product, Index group, int64_t row,
                        int64_t vector, bool isMasked);
  void emitSoftmax(Index panel, mlir::ValueRange maxima, Index low, Index high);
  mlir::Value getBuckets(size_t number, Index panel);
  void clearBuckets();
  void scaleBuckets(Index panel, mlir::ValueRange alpha);
  void addToBuckets(Index panel, Index keyInBlock, int64_t vector,
                    mlir::Value weights);
  void emitOutput(mlir::Value output, int64_t rows, Index column,
                  mlir::ValueRange alpha, Index low, Index high);

  // ForwardOffsets.cpp
  void packOffsetQueries();
  mlir::Value getOffsetQueries(size_t number, Index panel);
  mlir::Value getOffsetEnd();
  void enterOffsetPanel(Index panel, Index firstRow);
  void emitOffsetProducts(Index group);
  void emitOffsetEntries(size_t number, Index low, Index high);
  void emitOffsetDiagonals(size_t number, Index group);

  mlir::Value getPossible(const TileClass &tile);
  void whenPossible(const TileClass &tile, llvm::function_ref<void()> body);

  mlir::Value at(int64_t place, llvm::ArrayRef<Index> offsets = {});
  mlir::Value statistics(int64_t place, Index panel) {
    return at(place, {kernel.mul(panel, task.panel)});
  }

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardTask &task;
  const ForwardScratch &scratch;
  mlir::Value memory;
  ScoreSite site;
  OffsetCells cells;
  HingeCells hinges;
  TileMask mask;
  RowSite querySite, keySite, valueSite;
  ScoreForm form;

  // Where the emitted code stands.
  Index batch = 0, head = 0, kvHead = 0;
  Index firstQuery = 0, queryCount = 0, panelCount = 0;
  Index firstKey = 0, keyCount = 0;
  TileSide blockKeys;
  mlir::Value keys, values; ///< rows of keyWords and valueWords
  mlir::Value query;        ///< Q^T of the panel
  Index scoreOffset = 0;    ///< of the scores at hand, for several tiles
  mlir::Value scanSums;     ///< of the panel
  Index offsetPanel = 0, firstEntry = 0; ///< of products with rows of offsets
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H
