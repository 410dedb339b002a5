//===- KernelNumber.h - Functions that give a number ------------*- C++ -*-===//
//
// A kernel has two of them (codegen/Emit/KernelFunction.h), and may have a
// third, `k_flops`: where the work depends on the arguments, since a mask hides
// keys, a profile asks it instead of what the launch says. Two more,
// `k_threads` and `k_shared`, say what a block of a GPU is (runtime/Device.h):
// the second alone, what a warp keeps near (VectorTarget.h),
// `k_together` how many items share what they read where they are of one range,
// and `k_scores` how many scores a thread holds in a pass of its main loop, for
// those who count instructions (tools/sextant-prof/StaticReport.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_KERNELNUMBER_H
#define SEXTANT_CODEGEN_EMIT_KERNELNUMBER_H

#include "codegen/Emit/KernelFunction.h"

namespace sextant::codegen {

/// Adds a function of the argument block that gives a number (i64), unless
/// there is one of that name.
void createNumber(
    const Lowering &lowering, const llvm::Twine &name,
    const KernelOperands &operands, const VectorTarget &target,
    llvm::function_ref<Index(KernelBuilder &, ArgumentBlock &)> number);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_KERNELNUMBER_H
