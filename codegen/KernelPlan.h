//===- KernelPlan.h - What a kernel needs to know of an attention -*- C++ -*-===//
//
// Reads a fused and hoisted attention (or its gradient): which places are in
// use, in which form each hoisted value is kept, which gradients are wanted.
// Holds no name of an encoding and nothing of a target.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_KERNELPLAN_H
#define SEXTANT_CODEGEN_KERNELPLAN_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::codegen {

/// How a hoisted value is kept, by its axes.
enum class HoistForm {
  HeadScalar,   ///< {batch, head} or less: a scalar of the work item
  OffsetTable,  ///< {batch, head, offset} or less: one row per head
  QueryVector,  ///< {batch, head, query} or less
  KeyVector,    ///< {batch, head, key} or less
  RowLaneTable, ///< {batch, head, self, lane} or less: for row maps
};

struct Hoisted {
  pos::HoistOp op;
  HoistForm form;
  pos::AxisSet axes;
  bool perBatch = false, perHead = false;
  bool wantsGradient = false; ///< some trained parameter stands behind it
};

struct KernelPlan {
  pos::SitesOwnerInterface owner;
  llvm::SmallVector<Hoisted> hoisted; ///< in order: later ones may use earlier
  llvm::SmallVector<pos::RowsOp> queryRows, keyRows, valueRows, embeddingRows;
  pos::ScoreOp score; ///< null: identity
  pos::MaskOp mask;   ///< null: everything is visible
  /// Per parameter operand: whether its gradient is asked for.
  llvm::SmallVector<bool> paramWantsGradient;
  double scale = 1.0;
  bool hasPositions = false;

  const Hoisted *find(pos::HoistOp op) const;
};

/// Builds the plan. A site that no kernel of the CPU and reference targets
/// computes yet is a diagnostic that names the op.
mlir::FailureOr<KernelPlan> planKernel(pos::SitesOwnerInterface owner);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_KERNELPLAN_H
