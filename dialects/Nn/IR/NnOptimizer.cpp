//===- NnOptimizer.cpp - Norms of gradients and AdamW ---------------------===//
//
// Types of results and verification of the ops of NnOptimizer.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnTypes.h"

using namespace mlir;
using namespace sextant::nn;

LogicalResult AdamWOp::inferReturnTypes(MLIRContext *, Where,
                                        ValueRange operands,
                                        DictionaryAttr attributes,
                                        OpaqueProperties properties,
                                        RegionRange regions, Types &types) {
  Adaptor op(operands, attributes, properties, regions);
  for (int group = 0; group < 3; ++group)
    llvm::append_range(types, op.getParams().getTypes());
  return success();
}

LogicalResult GlobalNormOp::verify() {
  if (getTensors().empty())
    return emitOpError("expected at least one tensor");
  return success();
}

LogicalResult AdamWOp::verify() {
  if (getBetas().size() != 2)
    return emitOpError("expected two betas, got ") << getBetas().size();
  if (getParams().empty())
    return emitOpError("expected at least one parameter");
  return success();
}
