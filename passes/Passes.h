//===- Passes.h - Constructors and options of the passes --------*- C++ -*-===//
//
// This file declares the passes over encodings, as TableGen generates them from
// Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_PASSES_H
#define SEXTANT_PASSES_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sextant::passes {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

} // namespace sextant::passes

#endif // SEXTANT_PASSES_PASSES_H
