//===- MergedKernel.h - Kernels over the items of several -------*- C++ -*-===//
//
// The kernel of a merged launch runs the items of some kernels one kernel after
// the other: items 0 .. n - 1 are those of the first, and so on. Its functions
// are made of theirs, whose bodies read words of another argument block.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_MERGEDKERNEL_H
#define SEXTANT_PASSES_SCHEDULE_MERGEDKERNEL_H

#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::passes {

/// The functions of a kernel, see `exec.launch`.
struct KernelFunctions {
  mlir::LLVM::LLVMFuncOp run, items, scratch;
  /// Runs a range of items within `run`, which sets the state that it runs in;
  /// null if `run` does all of it.
  mlir::LLVM::LLVMFuncOp range;

  mlir::LLVM::LLVMFuncOp getBody() const { return range ? range : run; }
};

/// The functions of a kernel that can be a part of another; the error says why
/// it cannot.
llvm::Expected<KernelFunctions> findKernel(mlir::ModuleOp kernels,
                                           mlir::StringRef name);

/// A kernel as a part of a merged one: for each word of its argument block the
/// number of the word in the other's block that has the same value.
struct KernelPart {
  KernelFunctions functions;
  llvm::SmallVector<unsigned> words;
};

/// Adds the kernel `name` of some parts, whose argument block has a number of
/// words, to their module.
void createMergedKernel(mlir::StringRef name, llvm::ArrayRef<KernelPart> parts,
                        unsigned words);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_MERGEDKERNEL_H
