//===- Requirements.h - What an encoding needs of its use -------*- C++ -*-===//
//
// An encoding may require something of its use (`pos.require`, of sizes or
// options). What is known when it is inlined is checked then, the rest becomes
// checks of the program.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_REQUIREMENTS_H
#define SEXTANT_PASSES_ENCODING_REQUIREMENTS_H

#include "dialects/Pos/IR/Pos.h"
#include "passes/Analysis/Evaluate.h"

namespace sextant::passes {

/// Fails with a diagnostic at `user`, which names the use, if a `pos.require`
/// of a definition does not hold. One that is not decided yet is left alone.
mlir::LogicalResult verifyRequirements(pos::EncodingOp definition,
                                       Evaluator &evaluator,
                                       llvm::StringRef use,
                                       mlir::Location user);

/// Adds to `block` what of a definition's requirements is decided later: by the
/// extents and the positions of the call, by masks. Fails with a diagnostic at
/// a requirement that neither would decide.
mlir::LogicalResult spliceRequirements(pos::EncodingOp definition,
                                       Evaluator &evaluator,
                                       mlir::Block &block);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_REQUIREMENTS_H
