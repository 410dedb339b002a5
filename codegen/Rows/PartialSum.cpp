//===- PartialSum.cpp - Sums of which items have a part each --------------===//

#include "codegen/Rows/PartialSum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value PartialSum::getRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                         ArrayRef<Index> place) const {
  SmallVector<Index> inPart{0};
  llvm::append_range(inPart, place);
  Value part = arguments.getAddress(*operand, inPart);
  if (!wholeOperand)
    return part;
  Value isWhole = kernel.equal(arguments.getSize(*operand, 1), 0);
  return arith::SelectOp::create(kernel.builder, kernel.loc, isWhole,
                                 arguments.getAddress(*wholeOperand, place),
                                 part);
}
