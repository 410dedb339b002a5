//===- AttentionLaunch.h - What launches of attention share -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_ATTENTIONLAUNCH_H
#define SEXTANT_CODEGEN_ROWS_ATTENTIONLAUNCH_H

#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// Numbers of the results of a forward among the operands of its main launch.
struct ForwardResults {
  llvm::SmallVector<unsigned> outputs; ///< one per value
  unsigned lse = 0;
  /// Of the softmax, for the backward, where it is wanted.
  std::optional<unsigned> statistics;
};

/// Allocates the results of the `pos.attention` as what the launch writes.
ForwardResults addForwardResults(const Lowering &lowering,
                                 LaunchOperands &operands);

/// A scalar of a launch: 1, or 0 where another launch does its work.
struct LaunchSwitch {
  mlir::Value runs;
  unsigned scalar;
};

/// Launches a kernel of attention that costs `perScore` FLOP for each query and
/// key of each head, where it runs. Under a mask a profile counts those that
/// are visible: the kernel has a function for it, `_flops`.
void launchAttention(const Lowering &lowering, const LaunchOperands &operands,
                     llvm::StringRef suffix, const SiteOperands &sites,
                     int64_t perScore,
                     std::optional<LaunchSwitch> launchSwitch = {});

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ATTENTIONLAUNCH_H
