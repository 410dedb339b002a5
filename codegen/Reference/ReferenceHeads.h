//===- ReferenceHeads.h - Attention with a score of all heads ---*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEHEADS_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEHEADS_H

#include "codegen/Reference/ReferenceScore.h"

namespace sextant::codegen {

/// Emits the kernel of one element of the batch.
void runAllHeads(ReferenceKernel &r, const AttentionTensors &tensors,
                 Index batch, bool isBackward);

/// Makes bodies of `pos.for_heads` complete payloads of their own.
mlir::LogicalResult completeBodies(const KernelPlan &plan);

mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceAllHeads(const Lowering &lowering, ReadLog *log);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceAllHeadsBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEHEADS_H
