//===- ForwardScans.h - Running sums of the forward -------------*- C++ -*-===//
//
// A running sum of a panel of queries is a vector per vector of lanes, which
// goes from key to key in registers, and in memory [scans][capacity] from one
// register tile to the next.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDSCANS_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDSCANS_H

#include "codegen/Plan/KernelPlan.h"
#include "codegen/Tiles/ScanValues.h"

namespace sextant::codegen {

/// The running sums of the forward.
class ForwardScans {
public:
  ForwardScans(KernelBuilder &kernel, const KernelPlan &plan)
      : kernel(kernel), plan(plan) {}

  /// Loads the sums of a panel of `vectors` vectors; `memory` is its place.
  void enter(mlir::Value memory, int64_t capacity, int64_t vectors);
  void store();
  /// Whether every sum has reached its limit, an i1; null if that is not
  /// known.
  mlir::Value emitSaturated();
  /// Where sums have reached their limits, scans are constants.
  void setSaturated(bool value) { isSaturated = value; }
  /// Which lanes see the key; null: all do.
  void setVisible(mlir::Value lanes) { visible = lanes; }
  /// The scan at the next key, in a vector of the panel.
  mlir::Value scan(pos::ScanOp op, mlir::Value value, mlir::Value limit,
                   int64_t vector);

private:
  KernelBuilder &kernel;
  const KernelPlan &plan;
  mlir::Value sums; ///< memory
  int64_t capacity = 0, vectors = 0;
  llvm::SmallVector<mlir::Value> carries; ///< [scans][vectors]
  mlir::Value visible;
  bool isSaturated = false;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDSCANS_H
