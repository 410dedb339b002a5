//===- LowerAttention.h - From attention to launches of kernels -*- C++ -*-===//
//
// The passes that write kernels: in `pos-lower-attention` each op that owns
// sites becomes what the lowering of its target makes of it, in
// `exec-draw-masks` a random mask becomes a launch.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_DRIVER_LOWERATTENTION_H
#define SEXTANT_CODEGEN_DRIVER_LOWERATTENTION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sextant::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/Driver/LowerAttention.h.inc"

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_DRIVER_LOWERATTENTION_H
