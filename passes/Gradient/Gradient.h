//===- Gradient.h - Passes that derive gradients ----------------*- C++ -*-===//
//
// This file declares the passes that TableGen generates from Gradient.td.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_GRADIENT_GRADIENT_H
#define SEXTANT_PASSES_GRADIENT_GRADIENT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sextant::passes {

#define GEN_PASS_DECL
#include "passes/Gradient/Gradient.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Gradient/Gradient.h.inc"

} // namespace sextant::passes

#endif // SEXTANT_PASSES_GRADIENT_GRADIENT_H
