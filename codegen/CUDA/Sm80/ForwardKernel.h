//===- ForwardKernel.h - The forward on tensor cores ------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FORWARDKERNEL_H
#define SEXTANT_CODEGEN_CUDA_SM80_FORWARDKERNEL_H

#include "codegen/CUDA/Sm80/ForwardOperands.h"

namespace sextant::codegen {

/// Adds the kernel of the main launch of a forward. Its items are tiles of
/// queries of the heads of the batch; a block runs one at a time:
///
///   for each tile of keys that some query sees:
///     the next tile's rows and tables begin to come
///     S = Q K^T; payload; mask, in tiles that it shows a part of
///     P = exp2(S - max); O = O * exp2(max before - max) + P V
///   O / sum, log-sum-exp
void createFragmentForward(const Lowering &lowering, llvm::StringRef suffix,
                           const ForwardOperands &launch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FORWARDKERNEL_H
