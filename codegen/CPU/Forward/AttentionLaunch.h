//===- AttentionLaunch.h - What launches of attention share -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H
#define SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H

#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// Launches a kernel of attention that costs `perScore` FLOP for each query and
/// key of each head. Under a mask a profile counts those that are visible: the
/// kernel has a function for it, `_flops`.
void launchAttention(const Lowering &lowering, const LaunchOperands &operands,
                     llvm::StringRef suffix, const SiteOperands &sites,
                     int64_t perScore);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H
