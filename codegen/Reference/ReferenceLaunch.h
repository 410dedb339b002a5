//===- ReferenceLaunch.h - Launches of the reference ------------*- C++ -*-===//
//
// Internal to codegen/Reference: the tensors of an attention's launch, and the
// launch itself.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCELAUNCH_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCELAUNCH_H

#include "codegen/Reference/ReferenceRows.h"

namespace sextant::codegen {

/// Numbers of the operands of an attention's launch; those of gradients in a
/// backward only.
struct AttentionTensors {
  unsigned query = 0, key = 0, lse = 0;
  /// In a forward where they are wanted, in a backward always.
  std::optional<unsigned> statistics;
  llvm::SmallVector<unsigned> values, outputs;
  unsigned lseGradient = 0, queryGradient = 0, keyGradient = 0;
  llvm::SmallVector<unsigned> outputGradients, valueGradients;
};

/// Adds what a `pos.attention` reads and allocates what it writes, its results.
llvm::SmallVector<mlir::Value> addForwardTensors(const Lowering &lowering,
                                                 LaunchOperands &operands,
                                                 AttentionTensors &tensors);
/// Adds the tensors of a `pos.attention_backward`; `layout` takes the gradients
/// of parameters.
llvm::SmallVector<mlir::Value> addBackwardTensors(const Lowering &lowering,
                                                  LaunchOperands &operands,
                                                  PointLayout &layout,
                                                  AttentionTensors &tensors);

/// Adds parameters, extents and positions to the reads of a launch.
PointLayout addReferenceReads(const Lowering &lowering,
                              LaunchOperands &operands);
/// Zeroed gradients of the wanted parameters, added to the writes, in the order
/// of `numbers`.
llvm::SmallVector<mlir::Value>
addParamGradients(const Lowering &lowering, LaunchOperands &operands,
                  PointLayout &layout, llvm::ArrayRef<int32_t> numbers);

/// A launch whose work consists of units that do not depend on each other:
/// heads or rows. A unit is an item, but one item does all of them, in order,
/// where gradients of parameters are sums over them or reads are noted in a
/// log.
struct ReferenceLaunch {
  using Count = llvm::function_ref<Index(KernelBuilder &, ArgumentBlock &)>;

  const Lowering &lowering;
  const LaunchOperands &operands;
  const PointLayout &layout;
  const ReadLog *log = nullptr;

  /// A unit has a kernel of its own, with `elements` of scratch memory.
  mlir::LogicalResult
  create(llvm::StringRef suffix, Count units, Count elements,
         llvm::function_ref<void(ReferenceBuilder &, Index unit)> body) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCELAUNCH_H
