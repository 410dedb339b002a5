//===- PanelOutput.h - The output of a panel of queries ---------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_PANELOUTPUT_H
#define SEXTANT_CODEGEN_CPU_FORWARD_PANELOUTPUT_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// Sums the output of the panel, transposed: O^T = O^T * alpha + V^T P; stores
/// it as rows, divided by the sum of the softmax.
class PanelOutput {
public:
  explicit PanelOutput(ForwardItem &item)
      : item(item), kernel(item.kernel), launch(item.launch),
        alphas(item.layout.reserve(launch.areFew ? launch.panel : 0)) {}

  void clear(Index lane);
  /// Asks for a share of what is there, before it is scaled: other panels have
  /// been added to meanwhile.
  void prefetchShare(Index part, Index parts);
  /// Scales what is there, where a product only adds to it: long before it
  /// does, since tiles are not loaded of what is on its way to the cache.
  void scale(mlir::ValueRange alpha);
  /// Takes in the keys [low, high) of the block, whose rows of V are `values`.
  void update(mlir::Value values, mlir::ValueRange alpha, Index low,
              Index high);
  /// Stores the rows of the panel, which is at its end.
  void store();

private:
  void addTiles(mlir::Value values, Index low, Index high);
  void storeRows(Index row, Index lane, Index count);

  ForwardItem &item;
  KernelBuilder &kernel;
  const ForwardLaunch &launch;
  int64_t alphas; ///< of few queries
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_PANELOUTPUT_H
