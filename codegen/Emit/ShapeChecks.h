//===- ShapeChecks.h - Sizes that kernels rely on ---------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_EMIT_SHAPECHECKS_H
#define SEXTANT_CODEGEN_EMIT_SHAPECHECKS_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::codegen {

/// Emits an `exec.check` before `op` for every relation of sizes that its text
/// states and its types leave open: kernels index by them without looking.
void emitShapeChecks(mlir::OpBuilder &builder, mlir::Operation *op);

/// "file:line:column: ", the innermost place of an op in a text; nothing where
/// none is known.
std::string describePlace(mlir::Operation *op);

/// A parameter as its caller knows it, read by an op: by the name of the
/// function's argument, or counted from 0.
std::string describeParam(mlir::Value operand, unsigned number,
                          mlir::Operation *op);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_SHAPECHECKS_H
