//===- HeadsBackward.h - Backward of scores of all heads --------*- C++ -*-===//
//
// Lanes are keys. One work item is (batch, chunk of key tiles); a tile of keys
// is one panel of all heads:
//
//   for each tile of keys:
//     K and V of all heads: packed as K^T and V^T; clear dK^T, dV^T
//     for each block of queries that the tile's keys are not hidden from:
//       the window of its offsets
//       for each head: S = Q K^T, dP - delta
//       for each query, for each vector of keys: the payload again, P, and the
//         pullback of P (dP - delta); P replaces S, dS replaces dP
//       with hinges, around each group of queries: their functions of all
//         heads, and the moments of these
//       every 16 queries: sums of the gradients of matrices
//       for each head: dV^T += dO^T P; dK^T += Q^T dS; dQ += dS K
//       the window of gradients
//     dK, dV of all heads: transposed into rows, row maps pulled back
//
// dQ is the one output that items share: each chunk has its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H

#include "codegen/CPU/AllHeads/HeadsGradients.h"
#include "codegen/CPU/Backward/BackwardKernel.h"

namespace sextant::codegen {

/// Adds the main kernel.
void createHeadsBackward(const Lowering &lowering, llvm::StringRef suffix,
                         const BackwardTask &task, const VectorTarget &target);

class HeadsBackward : public BackwardKernel {
public:
  HeadsBackward(KernelBuilder &kernel, ArgumentBlock &arguments,
                const BackwardTask &task, ScratchLayout &layout,
                mlir::Value scratch);

  static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                            const BackwardTask &task);
  void emitItem(const Item &item);

private:
  /// Rows of a block of queries, in place or copied.
  struct Rows {
    mlir::Value base;
    Index stride = 0;
  };

  void enterHead(Index number);
  void forEachKeyHead(llvm::function_ref<void()> body);
  void beginTile();
  void endTile();
  void emitBlock();
  void loadStatistics();
  std::pair<Index, Index> classifyGroups();
  Visibility classifyRows(Index first, int64_t count);
  Rows prepareQueries();
  Rows prepareOutputGradients();
  Rows prepareRows(unsigned tensor, int64_t dim, int64_t row, bool mustCopy,
                   mlir::Value buffer, llvm::function_ref<void()> copy);
  void emitProducts(Index low, Index high);
  void emitProduct(const Rows &rows, mlir::Value packed, int64_t dim,
                   Index group, mlir::ValueRange initial, mlir::Value to);
  void emitVisibleLanes(Index low, Index high);
  void maskRow(Index number, Index row);
  void emitPayloads(Index low, Index high);
  void emitGroups(Index step, Index end);
  void emitRows(Index step, Index group, Index end);
  void moveTo(Index group, Index row, Index lane);
  void emitPoint(Index row, Index lane);
  void emitGradients(Index low, Index high);
  void accumulate(const Rows &rows, mlir::Value scores, mlir::Value gradient,
                  int64_t row, Index low, Index high);
  void emitQueryGradient(Index low, Index high);

  /// Panels of one head, or what belongs to a head of `tile`.
  mlir::Value panelOf(mlir::Value panels, Index number, int64_t row) {
    return kernel.advance(panels, {kernel.mul(number, row * shape.keys)});
  }
  mlir::Value scoresOf(mlir::Value tiles, Index number, Index row) {
    return kernel.advance(
        tiles, {kernel.mul(number, tileStride), kernel.mul(row, shape.keys)});
  }
  mlir::Value visibleOf(Index number, Index row) {
    return kernel.advance(visible, {kernel.mul(number, visibleStride),
                                    kernel.mul(row, shape.keys)});
  }

  int64_t heads, tileStride, visibleStride = 0;
  HeadsWindow window, gradientWindow;
  HeadsGradients headsSite;
  TileSide keySide;                                 ///< the tile of keys
  mlir::Value keyRowsOfAll, keysOfAll, valuesOfAll; ///< per kv head
  mlir::Value keyGradients, valueGradients;
  mlir::Value scores, scoreGradients; ///< per head [queries][keys]
  mlir::Value visible; ///< f32 [queries][keys], 1 or 0; per head if masks are
  mlir::Value negativeShift, inverseSum, delta; ///< per head [queries]
  mlir::Value kinds; ///< i64 per group of rows: what the mask says of it
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H
