//===- InitAllPasses.h - Every pass and pipeline of Sextant -----*- C++ -*-===//
//
// Tools register all passes and pipelines with one call.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_INITALLPASSES_H
#define SEXTANT_PASSES_INITALLPASSES_H

#include "passes/Gradient/Gradient.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Schedule/Schedule.h"

namespace sextant {

namespace passes {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace passes

inline void registerAllPasses() {
  passes::registerEncodingPasses();
  passes::registerGradientPasses();
  passes::registerSchedulePasses();
  passes::registerPipelines();
}

} // namespace sextant

#endif // SEXTANT_PASSES_INITALLPASSES_H
