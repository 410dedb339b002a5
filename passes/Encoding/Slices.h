//===- Slices.h - What a value of a payload is computed with ----*- C++ -*-===//
//
// The slice of a value is the ops that it is computed with. Passes clone slices
// into hoists, and erase what is left without a use.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_SLICES_H
#define SEXTANT_PASSES_ENCODING_SLICES_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace sextant::passes {

/// Values of the payload's own block that an op uses, in its regions too.
llvm::SmallVector<mlir::Value> getPayloadOperands(mlir::Operation *op,
                                                  mlir::Block &payload);

/// The largest values of a payload that are made elsewhere, and the ops that
/// stay.
struct PayloadRoots {
  llvm::SmallSetVector<mlir::Value, 8> values;
  llvm::SmallPtrSet<mlir::Operation *, 16> inPlace;

  /// Makes the ops that stay use `made` instead of a root.
  void replace(mlir::Value root, mlir::Value made, mlir::Block &payload) const;
};

/// Finds the roots by what may be one, from the end of the payload on.
PayloadRoots findRoots(mlir::Block &payload,
                       llvm::function_ref<bool(mlir::Value)> isRoot);

/// The ops of the payload that `root` is computed with, itself included, in
/// order. `stop` values are taken as given.
llvm::SmallVector<mlir::Operation *> getSlice(mlir::Value root,
                                              mlir::Block &payload,
                                              llvm::ArrayRef<mlir::Value> stop);

/// Clones a slice of a payload of `site` to the builder. Constants of the
/// attention's own region come along.
void cloneSlice(mlir::OpBuilder &builder,
                llvm::ArrayRef<mlir::Operation *> slice,
                pos::SiteOpInterface site, mlir::IRMapping &mapping);

/// Computes the scalars that the body of a `pos.for_heads` uses of the payload
/// around it in the body: they do not need the scores, or they would be
/// vectors.
void moveScalarsIn(pos::ForHeadsOp atHeads, mlir::Block &payload);

/// Moves ops that do not need the index of a sum before it; constants follow as
/// copies. Gives the number of ops moved.
unsigned moveInvariantsOut(pos::SumOp sum);

/// Erases ops of a block that nothing uses, the last first.
void eraseDead(mlir::Block &block);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_SLICES_H
