//===- FunctionBodies.h - What encodings' functions hold --------*- C++ -*-===//
//
// Functions of an encoding call helpers, choose between operations (`scf.if`)
// and repeat them (`scf.for`) as options and extents say. All this is gone
// before a model calls the function: bodies of helpers and what is chosen stand
// in their place, loops are unrolled.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_FUNCTIONBODIES_H
#define SEXTANT_PASSES_ENCODING_FUNCTIONBODIES_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sextant::passes {

/// Replaces calls by the bodies of helpers, and what these call in turn. None
/// calls itself (F5).
void inlineHelpers(mlir::func::FuncOp function, pos::EncodingOp encoding);

/// Puts what a choice or a loop stands for in its place, if constants decide
/// it, and erases it. Gives the op to look at next: the first of those that
/// came; `op` itself if it is no such op, or if nothing decides it.
mlir::Operation *expandControlFlow(mlir::Operation *op);

/// Expands all that constants decide in a function, folding arithmetic on
/// integers on the way.
void foldControlFlow(mlir::func::FuncOp function);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_FUNCTIONBODIES_H
