//===- ReadChecks.h - Reads of payloads outside of parameters ---*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_REFERENCE_READCHECKS_H
#define SEXTANT_CODEGEN_REFERENCE_READCHECKS_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::codegen {

/// Emits, ahead of a forward op of any target, a launch and checks that name
/// the reads of its payloads that lie outside of a parameter.
mlir::LogicalResult emitReadChecks(mlir::OpBuilder &builder,
                                   mlir::ModuleOp kernels,
                                   llvm::StringRef prefix,
                                   pos::SitesOwnerInterface owner);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_READCHECKS_H
