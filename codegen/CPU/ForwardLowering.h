//===- ForwardLowering.h - The forward on the CPU ---------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARDLOWERING_H
#define SEXTANT_CODEGEN_CPU_FORWARDLOWERING_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Lowers `pos.attention` to the launches that fill its hoisted tables and one
/// launch of the forward kernel (see ForwardLoopNest.h).
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerForward(const Lowering &lowering);

/// Fails, with a diagnostic at the op, unless the CPU has kernels for what the
/// op works on, f32 or bf16, and for its contextual ops.
mlir::LogicalResult verifyCPUOperands(const KernelPlan &plan);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARDLOWERING_H
