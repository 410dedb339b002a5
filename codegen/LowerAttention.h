//===- LowerAttention.h - From attention to launches of kernels -*- C++ -*-===//
//
// The pass `lower-attention`, and what it asks of a target: one function per
// kind of op, which creates allocations and launches at the op and kernels in
// the module `@kernels`.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_LOWERATTENTION_H
#define SEXTANT_CODEGEN_LOWERATTENTION_H

#include "codegen/KernelPlan.h"
#include "codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sextant::codegen {

/// One op that is being lowered.
struct Lowering {
  /// Stands before the op, in the function that launches.
  mlir::OpBuilder &builder;
  mlir::ModuleOp kernels;
  /// Begins the names of the op's kernels. Ops of the same structure have the
  /// same prefix: `createKernel` keeps a kernel that is already there.
  llvm::StringRef prefix;
  const Target &target;
  const KernelPlan &plan;

  mlir::Operation *getOp() const {
    pos::SitesOwnerInterface owner = plan.owner;
    return owner.getOperation();
  }
  mlir::Location getLoc() const { return plan.owner->getLoc(); }
  /// The extent of a dimension as a value of type index.
  mlir::Value getDim(mlir::Value tensor, int64_t dim) const;
  /// Allocates a tensor of `type`; dynamic sizes are taken from `sizes` (one
  /// index per dimension; those of static dimensions may be null).
  mlir::Value allocate(mlir::RankedTensorType type, mlir::ValueRange sizes,
                       bool zero = false) const;
  /// Allocates a tensor of `type` with the sizes of `tensor`.
  mlir::Value allocateLike(mlir::Value tensor, mlir::Type type,
                           bool zero = false) const;
  /// The symbol of the kernel `prefix` + `suffix`.
  mlir::SymbolRefAttr getKernel(llvm::StringRef suffix) const;
  /// Its name inside `kernels`.
  std::string getKernelName(llvm::StringRef suffix) const;
};

/// Gives the values that replace the op's results; failure after a diagnostic.
using LoweringFunction =
    mlir::FailureOr<llvm::SmallVector<mlir::Value>> (*)(const Lowering &);

/// What a kind of target does with each kind of op.
struct TargetLowerings {
  LoweringFunction attention = nullptr;
  LoweringFunction attentionBackward = nullptr;
  LoweringFunction mapRows = nullptr;
  LoweringFunction mapRowsBackward = nullptr;
};

/// Filled by the folder of each target.
TargetLowerings getReferenceLowerings();
TargetLowerings getCPULowerings();

/// Emits, ahead of a forward op of any target, a launch and checks that name
/// the reads of its payloads that lie outside of a parameter.
mlir::LogicalResult emitReadChecks(mlir::OpBuilder &builder,
                                   mlir::ModuleOp kernels,
                                   llvm::StringRef prefix,
                                   pos::SitesOwnerInterface owner);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/LowerAttention.h.inc"

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_LOWERATTENTION_H
