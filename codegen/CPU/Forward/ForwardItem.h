//===- ForwardItem.h - Where an item of the forward stands ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H

#include "codegen/CPU/Forward/ForwardLaunch.h"
#include "codegen/CPU/Forward/ForwardPoint.h"
#include "codegen/Emit/ScratchLayout.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/RowRanges.h"
#include "codegen/Tiles/RegisterTile.h"
#include "codegen/Tiles/RowParts.h"
#include "codegen/Tiles/ScoreForm.h"
#include "codegen/Tiles/TileMask.h"

namespace sextant::codegen {

/// What the parts of an item share: what they write code with, where that code
/// stands, and the memory that passes from part to part.
struct ForwardItem {
  ForwardItem(KernelBuilder &kernel, ArgumentBlock &arguments,
              const ForwardLaunch &launch, ScratchMemory &memory)
      : kernel(kernel), arguments(arguments), launch(launch),
        layout(memory.layout), memory(memory), form(launch.plan, launch.pairs),
        point(kernel, arguments, launch.plan, launch.sites, launch.vectors),
        query(layout.reserve(launch.queryWords * launch.countQueries(),
                             "queries")),
        output(layout.reserve(launch.outputRows * launch.countQueries(),
                              "output")),
        maximum(layout.reserve(launch.countQueries())),
        sum(layout.reserve(launch.countQueries())),
        scores(layout.reserve(launch.panelsTogether * launch.scoreTiles *
                                  launch.countTerms() * launch.scoreStride,
                              "scores")) {}

  /// Stands at a head, and at that of the keys that it meets.
  void enterHead(Index newBatch, Index newHead) {
    batch = newBatch;
    head = newHead;
    Index heads = arguments.getSize(launch.sites.query, 1);
    Index keyHeads = arguments.getSize(launch.sites.key, 1);
    kvHead = kernel.div(head, kernel.div(heads, keyHeads));
    if (launch.scoreTiles > 1)
      scoreOffset = kernel.mul(head, launch.scoreStride);
  }
  /// Stands at a panel, whose first query is number `first` of the item's.
  void enterPanel(Index number, Index first) {
    panel = number;
    rowCount = kernel.min(launch.panel, kernel.sub(queryCount, first));
    firstRow = kernel.add(firstQuery, first);
    point.enterPanel(firstRow, first);
    if (launch.panelsTogether > 1)
      scoreOffset = kernel.mul(kernel.rem(panel, launch.panelsTogether),
                               launch.countTerms() * launch.scoreStride);
  }

  /// Keys of a group for its mask, which knows rows by ranges: those that
  /// exist, or, as long as a group lies in one range, all.
  Index countKeys(Index group) const {
    if (launch.rows <= rowsPerRange)
      return launch.rows;
    return kernel.min(launch.rows, kernel.sub(keyCount, group));
  }
  /// The number of the query at a lane of the panel among those of the item.
  Index getQuery(Index lane) const {
    return kernel.add(kernel.mul(panel, launch.panel), lane);
  }
  /// An address of scratch memory.
  mlir::Value at(int64_t place, llvm::ArrayRef<Index> offsets = {}) const {
    return memory.at(kernel, place, offsets);
  }
  /// That of what the panel has there: `rows` rows as wide as the panel.
  mlir::Value ofPanel(int64_t place, int64_t rows = 1, Index lane = 0) const {
    return at(place, {kernel.mul(panel, rows * launch.panel), lane});
  }
  /// That of the scores of a key of the block.
  mlir::Value getScores(Index key, Index offset = 0) const {
    return at(scores, {scoreOffset, kernel.mul(key, launch.panel), offset});
  }

  /// A product of `rows` with `count` rows of the panel's width at `base`.
  RegisterTile getTile(llvm::ArrayRef<TileRow> rows, mlir::Value base,
                       Index count) const {
    RegisterTile tile;
    tile.rows = rows;
    tile.base = base;
    tile.vectorStep = launch.panel;
    tile.vectors = launch.vectors;
    tile.count = count;
    return tile;
  }

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardLaunch &launch;
  ScratchLayout &layout;
  ScratchMemory &memory;
  const ScoreForm form;
  ForwardPoint point; ///< of payloads of one head

  Index batch = 0, head = 0, kvHead = 0;
  Index firstQuery = 0, queryCount = 0, panelCount = 0; ///< of the item
  Index panel = 0, firstRow = 0, rowCount = 0; ///< the panel and its queries
  Index firstKey = 0, keyCount = 0;            ///< of the block
  Index scoreOffset = 0; ///< of the tile of scores of the head or the panel

  // Places in scratch memory, in 32-bit words.
  int64_t query;   ///< Q^T [panels][terms][queryWords / terms][panel]
  int64_t output;  ///< O^T [panels][outputRows][panel]
  int64_t maximum; ///< [panels][panel], in the units of the scores
  int64_t sum;     ///< [panels][panel]
  int64_t scores;  ///< S, then P [keys][panel], its terms scoreStride apart
};

/// Calls `body` for all of `length`: in a loop for `step` at a time, then for
/// the rest.
inline void
forParts(KernelBuilder &kernel, int64_t length, int64_t step,
         llvm::function_ref<void(Index first, int64_t count)> body) {
  int64_t whole = length / step * step;
  if (whole)
    kernel.loop(0, whole, step, [&](mlir::Value first) { body(first, step); });
  if (whole < length)
    body(whole, length - whole);
}

/// Stores vectors one behind the other.
inline void storeVectors(KernelBuilder &kernel, mlir::ValueRange vectors,
                         mlir::Value to) {
  for (int64_t lane = 0; mlir::Value vector : vectors) {
    kernel.storeVector(vector, to, {lane});
    lane += kernel.width();
  }
}

/// Whether some score of a tile may be visible, an i1.
inline mlir::Value getPossible(KernelBuilder &kernel, const TileClass &tile) {
  return tile.possible ? tile.possible : kernel.constantI1(true);
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDITEM_H
