//===- BackwardLoopNest.h - The loop nest of the backward -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLOOPNEST_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLOOPNEST_H

#include "codegen/CPU/Backward/BackwardLaunch.h"

namespace sextant::codegen {

/// Adds the main kernel.
void createBackwardKernel(const Lowering &lowering, llvm::StringRef suffix,
                          const BackwardLaunch &launch,
                          const VectorTarget &target);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDLOOPNEST_H
