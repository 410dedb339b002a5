//===- HoistKernel.h - Kernels of the tables of hoisted values ----*- C++
//-*-===//
//
// Internal to codegen/HoistTable: the two kernels of a hoisted value, and the
// operands that they share with their launches.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_HOISTKERNEL_H
#define SEXTANT_CODEGEN_HOISTKERNEL_H

#include "codegen/ArgumentPoint.h"
#include "codegen/HoistTable.h"

namespace sextant::codegen {

/// Numbers of the operands of a hoist's kernel.
struct HoistLayout {
  PointLayout point;
  /// Buffers of earlier hoists, and their gradients (pullback only).
  llvm::DenseMap<mlir::Operation *, unsigned> buffers, gradients;
  std::optional<unsigned> range;
  unsigned table = 0; ///< the buffer to fill, or its gradient
};

/// Everything that a kernel of one hoisted value is made from.
struct HoistKernel {
  const Lowering &lowering;
  const Hoisted &entry;
  const HoistTableOptions &options;
  const HoistLayout &layout;
  const KernelOperands &operands;

  mlir::LogicalResult createFill(llvm::StringRef suffix) const;
  /// `itemPerHead`: heads touch separate gradients.
  mlir::LogicalResult createPullback(llvm::StringRef suffix,
                                     bool itemPerHead) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_HOISTKERNEL_H
