//===- Memory.h - Which values share memory ---------------------*- C++ -*-===//
//
// An op may overwrite an operand if nobody needs its memory afterwards. These
// functions find the values that share memory and the operands of which this
// holds.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_MEMORY_H
#define SEXTANT_PASSES_SCHEDULE_MEMORY_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"

namespace sextant::passes {

/// The operand whose memory the results of an op may share, or null.
mlir::Value getViewSource(mlir::Operation *op);

/// The value whose memory this one may have: that of which it is a view, or
/// itself.
mlir::Value getMemoryOwner(mlir::Value value);

/// The operand that an op writes a result over where it may, or null.
mlir::OpOperand *getOverwritten(mlir::OpResult result);

/// The value and everything that is made of it by views.
llvm::SmallVector<mlir::Value> collectViews(mlir::Value value);

/// The operands of a block's ops that their owner may overwrite: nothing else
/// reads or gives back their memory from the owner on, and it was made in this
/// block or belongs to one of the `updated` arguments.
llvm::DenseSet<mlir::OpOperand *>
findOverwritable(mlir::Block &block,
                 llvm::ArrayRef<mlir::BlockArgument> updated);

/// Whether the elements of a value may lie in memory in another order than that
/// of its dimensions, or with gaps.
bool mayBeStrided(mlir::Value value);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_MEMORY_H
