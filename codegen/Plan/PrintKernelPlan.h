//===- PrintKernelPlan.h - What kernels are given, as text ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_PLAN_PRINTKERNELPLAN_H
#define SEXTANT_CODEGEN_PLAN_PRINTKERNELPLAN_H

#include "codegen/Plan/KernelPlan.h"
#include "mlir/Pass/Pass.h"

namespace sextant::codegen {

/// Prints a plan, one fact per line.
void printKernelPlan(llvm::raw_ostream &stream, const KernelPlan &plan);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/Plan/PrintKernelPlan.h.inc"

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_PRINTKERNELPLAN_H
