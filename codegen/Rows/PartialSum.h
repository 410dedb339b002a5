//===- PartialSum.h - Sums of which items have a part each ------*- C++ -*-===//
//
// Items of a launch that add to the same gradient have sums of their own: a
// tensor [chunks, batch, heads, ...]. A later launch adds the parts up in their
// order, so that results do not depend on the number of threads.
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
  }
  explicit operator bool() const { return operand.has_value(); }
  unsigned operator*() const { return *operand; }

  mlir::Value tensor;

private:
  std::optional<unsigned> operand;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_PARTIALSUM_H
