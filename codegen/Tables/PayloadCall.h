//===- PayloadCall.h - Payloads written into a kernel -----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_TABLES_PAYLOADCALL_H
#define SEXTANT_CODEGEN_TABLES_PAYLOADCALL_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Payload/PayloadEmitter.h"

namespace sextant::codegen {

/// The values that a payload yields at a point (`emitPayload`); zeros where it
/// fails, and without another diagnostic from then on.
KernelBuilder::Values callPayload(KernelBuilder &kernel, mlir::Block &payload,
                                  mlir::ValueRange arguments,
                                  PayloadPoint &point);

/// Its pullback (`emitPullback`): the cotangents of the arguments, null for
/// zeros, and where it fails.
KernelBuilder::Values callPullback(KernelBuilder &kernel, mlir::Block &payload,
                                   mlir::ValueRange arguments,
                                   mlir::ValueRange cotangents,
                                   PayloadPoint &point);

/// Emits some ops of a payload, operands first, and gives the value of one of
/// them, or null where the kernel has failed.
mlir::Value callOps(KernelBuilder &kernel, PayloadEmitter &emitter,
                    llvm::ArrayRef<mlir::Operation *> ops, mlir::Value result);

/// Emits what a value of a payload is computed with, and gives it; zero where
/// it fails.
mlir::Value callSlice(KernelBuilder &kernel, mlir::Block &payload,
                      mlir::Value value, PayloadPoint &point);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_PAYLOADCALL_H
