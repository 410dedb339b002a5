//===- HeadsBackward.h - Backward of scores of all heads --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H

#include "codegen/CPU/Backward/BackwardTask.h"

namespace sextant::codegen {

/// Adds the main kernel of a score payload of all heads.
void createHeadsBackward(const Lowering &lowering, llvm::StringRef suffix,
                         const BackwardTask &task, const VectorTarget &target);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSBACKWARD_H
