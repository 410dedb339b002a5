//===- RowGradients.h - Gradients of tables behind row maps -----*- C++ -*-===//
//
// A table over (row, lane) belongs to the rows of an operand: whoever pulls a
// row back owns its entries. Outside attention one item has a row of the whole
// batch and adds in place; inside attention heads and batch elements are items
// of their own, so each has partial sums, added up by a later launch.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWGRADIENTS_H
#define SEXTANT_CODEGEN_ROWS_ROWGRADIENTS_H

#include "codegen/Rows/PartialSum.h"
#include "codegen/Rows/RowCopy.h"

namespace sextant::codegen {

/// A point of a row map that adds the gradients of tables where they belong.
class GradientRowPoint : public RowPoint {
public:
  /// `gradients`: per plan.hoisted, of the tables' shapes
  /// [B' or 1, 1, L, lanes], or, if partial, [1, B, heads, L, lanes].
  GradientRowPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
                   const KernelPlan &plan, const SiteOperands &operands,
                   pos::RowOperand operand,
                   llvm::ArrayRef<PartialSum> gradients, bool isPartial)
      : RowPoint(kernel, arguments, plan, operands, operand),
        gradients(gradients), isPartial(isPartial) {}

  bool wantsGradient(pos::HoistOp hoist) override;
  using RowPoint::wantsGradient;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;

private:
  llvm::ArrayRef<PartialSum> gradients;
  bool isPartial;
};

/// Whether all gradients of trained values behind the row maps of an attention
/// can be summed; a diagnostic names the value that has no gradient.
mlir::LogicalResult verifyRowGradients(const KernelPlan &plan);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWGRADIENTS_H
