//===- Schedule.h - From the model's ops to instructions --------*- C++ -*-===//
//
// This file declares the passes that make lists of instructions, as TableGen
// generates them from Schedule.td.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_SCHEDULE_H
#define SEXTANT_PASSES_SCHEDULE_SCHEDULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sextant::passes {

#define GEN_PASS_DECL
#include "passes/Schedule/Schedule.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Schedule.h.inc"

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_SCHEDULE_H
