//===- EmittableOps.h - Ops of payloads that kernels compute ----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_EMITTABLEOPS_H
#define SEXTANT_CODEGEN_PAYLOAD_EMITTABLEOPS_H

#include "codegen/Payload/PayloadEmitter.h"
#include "codegen/Payload/PayloadPullback.h"

#include "codegen/Payload/EmittableOpInterface.h.inc"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace sextant::codegen {

/// Attach models to the ops of `pos`, once it is loaded: those whose value the
/// point knows (reads, products, scans, hinges), and sums.
void registerSiteModels(mlir::DialectRegistry &registry);
void registerSumModels(mlir::DialectRegistry &registry);

inline void registerEmittableOps(mlir::DialectRegistry &registry) {
  registerSiteModels(registry);
  registerSumModels(registry);
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_EMITTABLEOPS_H
