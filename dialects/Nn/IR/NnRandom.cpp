//===- NnRandom.cpp - Dropout ---------------------------------------------===//
//
// Verification, folding and derivatives of the ops of NnRandom.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnTypes.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

LogicalResult DropoutOp::verify() {
  double probability = getProbability().convertToDouble();
  if (!(probability >= 0.0 && probability < 1.0))
    return emitOpError("expected a probability in [0, 1), got ") << probability;
  auto place = static_cast<int64_t>(getPlace());
  if (place < 0 || place > std::numeric_limits<uint32_t>::max())
    return emitOpError("expected a place in 0 .. 2^32 - 1, got ") << place;
  return success();
}

OpFoldResult DropoutOp::fold(FoldAdaptor) {
  return getProbability().isZero() ? getInput() : Value();
}

LogicalResult DropoutOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    DropoutOp::create(
                        builder, getLoc(),
                        cotangents.of(getOperation()->getResult(0)), getSeed(),
                        getStep(), getProbabilityAttr(), getPlaceAttr()));
  return success();
}
