//===- BackwardKernel.h - The backward on tensor cores ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_BACKWARDKERNEL_H
#define SEXTANT_CODEGEN_CUDA_SM80_BACKWARDKERNEL_H

#include "codegen/CUDA/Sm80/BackwardOperands.h"

namespace sextant::codegen {

/// Adds the kernel of the main launch of a backward. Its items are chunks of
/// tiles of keys of the heads of keys; a block runs one at a time:
///
///   for each tile of keys of the chunk:
///     for each head of queries of the group:
///       for each tile of queries that sees some of the keys:
///         the next tile's rows, statistics and tables begin to come
///         S^T = K Q^T; payload; mask; P^T = exp2(S^T - shift) / sum
///         dV += P^T dO
///         dP^T = V dO^T; dS^T = P^T * (dP^T - delta), through the payload
///         dK += dS^T Q
///         dQ of the chunk += dS K
///     dK, dV
///
/// P and dS stay in the registers in which products left them, which are left
/// operands as they lie; dS also goes to shared memory, since dQ sums up over
/// the keys of all warps. Where a warp has some of the queries only, P goes
/// there, too, and dV and dK are made behind the barrier in front of dQ
/// (KeyGradientShare.h). A chunk has a sum of dQ of its own, so that results
/// do not depend on which block runs first (C9).
///
/// P and dS are operands of products in the type of the rows, in which plain
/// code of that type has them, too. With f16 a dS beyond 65504 is an infinity,
/// and gradients of its rows are infinite or NaN, which a scaler of losses
/// looks for; below 2^-14 P and dS lose bits, below 2^-25 they are 0, against
/// which it scales. Their sums are f32.
void createFragmentBackward(const Lowering &lowering, llvm::StringRef suffix,
                            const BackwardOperands &launch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_BACKWARDKERNEL_H
