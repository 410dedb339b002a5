//===- AllHeadsBackwardLoopNest.h - Backward of scores of all heads -------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDLOOPNEST_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDLOOPNEST_H

#include "codegen/CPU/Backward/BackwardLaunch.h"

namespace sextant::codegen {

/// Adds the main kernel of a score payload of all heads.
void createAllHeadsBackwardKernel(const Lowering &lowering,
                                  llvm::StringRef suffix,
                                  const BackwardLaunch &launch,
                                  const VectorTarget &target);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDLOOPNEST_H
