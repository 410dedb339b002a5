//===- HeadsForward.h - Forward of scores of all heads ----------*- C++ -*-===//
//
// Lanes are queries. One work item is a few panels of queries of one element of
// the batch, with all its heads:
//
//   Q of all heads: packed as for scalar scores, per panel of queries and head
//   for each block of keys, for each panel that sees some of it:
//     the window of its offsets
//     for each head: S = K Q^T
//     for each group of keys: functions of hinges of all heads; for each key,
//       for each vector of queries: the payload, S of all heads in registers;
//       then the mask
//     for each head: maximum, P = exp2, O^T = O^T * alpha + V^T P
//   O^T of all heads, divided by the sums
//
// The panels of an item share the keys and values of a block, which are those
// of all heads and come from beyond the second cache.
//
// Scores are in natural units up to the exponential.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSFORWARD_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSFORWARD_H

#include "codegen/CPU/AllHeads/HeadsSite.h"
#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// The forward of an attention whose score payload is of all heads.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerHeadsForward(const Lowering &lowering);

/// Sizes and operands on top of those of scalar scores.
struct HeadsForwardTask : ForwardTask {
  HeadsForwardTask(const KernelPlan &plan, const VectorTarget &target,
                   mlir::Type element, llvm::ArrayRef<int64_t> headDims,
                   llvm::ArrayRef<int64_t> valueDims,
                   const HeadsWeights &weights);

  const HeadsWeights &weights;
  int64_t heads;
  int64_t itemPanels;  ///< of queries of an item, at most
  unsigned packed = 0; ///< the packed weights
  /// Entries of a window, and padding that offset tables need.
  int64_t window() const { return keys + panel; }
  int64_t tablePadding() const { return 2 * (keys + panel); }
};

class HeadsForwardItem : public ForwardItem {
public:
  HeadsForwardItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                   const HeadsForwardTask &task, const ForwardScratch &scratch,
                   ScratchLayout &layout, mlir::Value memory);

  /// Panels `first` to `first + count - 1` of the queries.
  void emit(Index batch, Index first, Index count);

private:
  void enterPanel(Index number);
  void emitBlock(Index panel);
  std::pair<Index, Index> classifyGroups();
  void emitProducts(Index panel, Index low, Index high);
  void emitPayloads(Index low, Index high);
  void emitRows(Index group);
  void emitRow(Index group, Index keyInBlock);
  void moveTo(Index group, Index keyInBlock, Index lane);
  void maskGroup(Index group);
  void emitHead(Index low, Index high);
  void hideRows(Index low, Index high);
  void enterHead(Index number);
  TileClass classifyKeys(Index first, Index count, int64_t unit);
  mlir::Value scoresOf(Index number, Index row);

  const HeadsForwardTask &task;
  HeadsWindow window;
  HeadsScoreSite headsSite;
  TileSide rows; ///< the panel
  Index firstOfItem = 0, panelsOfItem = 1;
  Index placeOfPanel = 0; ///< of its first head in scratch memory
  mlir::Value kinds;      ///< i64 per group of keys: what the mask says of it
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSFORWARD_H
