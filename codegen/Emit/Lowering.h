//===- Lowering.h - An op that becomes launches of kernels ------*- C++ -*-===//
//
// What the launches of one op are written with, whatever the target: where
// allocations and launches go, where kernels go and what they are named.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_LOWERING_H
#define SEXTANT_CODEGEN_EMIT_LOWERING_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Plan/KernelPlan.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::codegen {

/// The module of kernels beside the functions that launch them.
inline constexpr llvm::StringLiteral kernelsName = "kernels";

/// That module, which is made where there is none.
mlir::ModuleOp getKernelsModule(mlir::ModuleOp module);

/// One op that is being lowered.
struct Lowering {
  /// Stands before the op, in the function that launches.
  mlir::OpBuilder &builder;
  mlir::ModuleOp kernels;
  /// Begins the names of the op's kernels. Ops of the same structure have the
  /// same prefix: `createKernel` keeps a kernel that is already there.
  llvm::StringRef prefix;
  const VectorTarget &target;
  const KernelPlan &plan;
  /// Whether all kernels could be written so far; a failure has been reported.
  mutable mlir::LogicalResult status = mlir::success();

  void check(mlir::LogicalResult result) const {
    if (mlir::failed(result))
      status = mlir::failure();
  }
  mlir::Operation *getOp() const {
    pos::SitesOwnerInterface owner = plan.owner;
    return owner.getOperation();
  }
  mlir::Location getLoc() const {
    return builder.getInsertionPoint()->getLoc();
  }
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
/// Where the lowering's status is a failure, they are no results either.
using LoweringFunction =
    mlir::FailureOr<llvm::SmallVector<mlir::Value>> (*)(const Lowering &);

/// What a kind of target does with each kind of op; null: it has no kernel.
struct TargetLowerings {
  LoweringFunction attention = nullptr;
  LoweringFunction attentionBackward = nullptr;
  LoweringFunction mapRows = nullptr;
  LoweringFunction mapRowsBackward = nullptr;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_LOWERING_H
