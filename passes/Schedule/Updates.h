//===- Updates.h - Names and updates of a function's arguments --*- C++ -*-===//
//
// A training step gives back new parameters and moments. These functions write
// them into the arguments that hold the old ones, and name arguments and
// results for the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_UPDATES_H
#define SEXTANT_PASSES_SCHEDULE_UPDATES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace sextant::passes {

/// The arguments that a result of the same mark gives a new value.
llvm::SmallVector<mlir::BlockArgument>
findUpdatedArguments(mlir::func::FuncOp function);

/// Copies what a function gives back of the memory of updated arguments, their
/// old values or what ops write over these: all results are what they are
/// before the first of them is written. Before the function's ops overwrite
/// anything.
void copySharedValues(mlir::func::FuncOp function,
                      const llvm::DenseSet<mlir::OpOperand *> &overwritable);

/// Writes the results that carry the mark of an argument into that argument
/// and drops them from the function's results.
void writeUpdatesIntoArguments(mlir::func::FuncOp function);

/// Gives marked arguments and results the names that the runtime reads.
void nameMarkedValues(mlir::func::FuncOp function);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_UPDATES_H
