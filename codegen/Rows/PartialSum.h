//===- PartialSum.h - Sums of which items have a part each ------*- C++ -*-===//
//
// Items of a launch that add to the same gradient have sums of their own: a
// tensor [chunks, batch, heads, ...]. A later launch adds the parts up in their
// order, so that results do not depend on the number of threads.
//
// Where a parameter is the table whose gradient is summed (RowLaneTables.h) and
// items add to separate rows of it, the sums are the parameter's gradient, and
// the tensor has a batch of 0: where the parameter has one element per element
// of the batch, or where an item goes through all that share one.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_PARTIALSUM_H
#define SEXTANT_CODEGEN_ROWS_PARTIALSUM_H

#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

/// The sums as a value of the program and as an operand of the launch that
/// writes them; neither where nobody wants the gradient.
struct PartialSum {
  PartialSum(mlir::Value tensor = {}) : tensor(tensor) {}

  /// Makes the tensor, if there is one, an operand of a launch.
  void addTo(LaunchOperands &operands) {
    if (tensor)
      operand = operands.write(tensor);
    if (whole)
      wholeOperand = operands.write(whole);
  }
  /// The address of the sums of a row of a table, [1, B, H, rows, lanes]; row
  /// `wholeRow` of the parameter's gradient, if that takes them.
  mlir::Value getRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                     Index batch, Index head, Index row, Index wholeRow) const;
  /// Elements of the batch of the parameter's gradient, if it may be that.
  std::optional<Index> getElements(ArgumentBlock &arguments) const;
  explicit operator bool() const { return operand.has_value(); }
  unsigned operator*() const { return *operand; }

  mlir::Value tensor;
  mlir::Value whole; ///< the parameter's gradient, if it may be that

private:
  std::optional<unsigned> operand, wholeOperand;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_PARTIALSUM_H
