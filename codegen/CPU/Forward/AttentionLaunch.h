//===- AttentionLaunch.h - What launches of attention share -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H
#define SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H

#include "codegen/CPU/Forward/ForwardKernel.h"
#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

/// Launches a kernel of attention that costs `perScore` FLOP for each query and
/// key of each head. Under a mask a profile counts those that are visible: the
/// kernel has a function for it, `_flops`.
void launchAttention(const Lowering &lowering, const LaunchOperands &operands,
                     llvm::StringRef suffix, const SiteOperands &sites,
                     int64_t perScore);

/// Adds what every forward of the `pos.attention` reads: query, key, values,
/// and `tables` with the rest of what payloads read.
void addForwardReads(const Lowering &lowering, const HoistTables &tables,
                     ForwardTask &task, LaunchOperands &operands);

/// Allocates the results of the `pos.attention` as what the launch writes, and
/// completes the operands of `task`.
void addForwardWrites(const Lowering &lowering, ForwardTask &task,
                      LaunchOperands &operands);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_ATTENTIONLAUNCH_H
