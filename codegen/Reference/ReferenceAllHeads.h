//===- ReferenceAllHeads.h - Attention with a score of all heads ----------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEALLHEADS_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEALLHEADS_H

#include "codegen/Reference/ReferenceScore.h"

namespace sextant::codegen {

/// Emits the kernel of one element of the batch.
void runAllHeads(ReferenceBuilder &r, const AttentionTensors &tensors,
                 Index batch, bool isBackward);
/// Elements of scratch memory: mapped rows of all heads (in a backward their
/// gradients too), a row of scores per head, buffers of the payload.
Index countAllHeads(KernelBuilder &k, ArgumentBlock &arguments,
                    const AttentionTensors &tensors, const KernelPlan &plan,
                    bool isBackward);

/// Whether a score has what the reference computes beside one of all heads.
mlir::LogicalResult verifyAllHeads(const KernelPlan &plan);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEALLHEADS_H
