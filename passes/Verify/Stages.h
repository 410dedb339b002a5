//===- Stages.h - What may exist after each stage ---------------*- C++ -*-===//
//
// Each stage keeps what the one before it promises, and a pass that takes one
// for granted asks for it: run out of order, passes would drop sites or read
// them wrongly.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_VERIFY_STAGES_H
#define SEXTANT_PASSES_VERIFY_STAGES_H

#include "mlir/IR/BuiltinOps.h"

namespace sextant::passes {

/// What the passes bring about, in this order.
enum class Stage {
  Inlined, ///< no encodings, only sites: pos-inline-encodings
  Fused,   ///< one site of a kind: pos-fuse-sites
  Hoisted, ///< what needs neither score nor row is hoisted: pos-hoist
};

/// Verifies what `stage` and those before it promise of what `root` holds.
mlir::LogicalResult verifyStage(mlir::Operation *root, Stage stage);

/// Verifies a stage at the start of `pass`, which takes it for granted: the
/// error names the pass that is missing before it.
mlir::LogicalResult requireStage(mlir::Operation *root, Stage stage,
                                 llvm::StringRef pass);

/// What a fused module promises besides: where it is required, no query sees a
/// later key.
mlir::LogicalResult verifyPast(mlir::Operation *root);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_VERIFY_STAGES_H
