//===- PartialSum.cpp - Sums of which items have a part each --------------===//

#include "codegen/Rows/PartialSum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value PartialSum::getRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                         Index batch, Index head, Index row,
                         Index wholeRow) const {
  Value part = arguments.getAddress(*operand, {0, batch, head, row});
  if (!wholeOperand)
    return part;
  Index element = kernel.rem(batch, arguments.getSize(*wholeOperand, 0));
  Value isWhole = kernel.equal(arguments.getSize(*operand, 1), 0);
  return arith::SelectOp::create(
      kernel.builder, kernel.loc, isWhole,
      arguments.getAddress(*wholeOperand, {element, head, wholeRow}), part);
}

std::optional<Index> PartialSum::getElements(ArgumentBlock &arguments) const {
  if (!wholeOperand)
    return std::nullopt;
  return arguments.getSize(*wholeOperand, 0);
}
