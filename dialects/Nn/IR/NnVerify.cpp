//===- NnVerify.cpp - Verification that ODS cannot express ----------------===//
//
// ODS verifies types; this file verifies what follows from several of them,
// such as lists of one length and bounds in the right order.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"

using namespace mlir;
using namespace sextant::nn;

LogicalResult ClampOp::verify() {
  if (!getFloor() && !getCeiling())
    return emitOpError("expected a floor, a ceiling or both");
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

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape())
    return emitOpError("expected a static shape, got ") << type;
  size_t expected = getInit() == Init::given      ? 0
                    : getInit() == Init::constant ? 1
                                                  : 2;
  size_t given = getInitArgs() ? getInitArgs()->size() : 0;
  if (given != expected)
    return emitOpError("expected ")
           << expected << " numbers after init " << stringifyInit(getInit())
           << ", got " << given;
  if (getValues() && getValues()->getType() != getType())
    return emitOpError("expected values of ")
           << getType() << ", got " << getValues()->getType();
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (input.getElementType() != result.getElementType())
    return emitOpError("expected a result of ")
           << input.getElementType() << ", got " << result.getElementType();
  if (getSizes().size() != static_cast<size_t>(result.getNumDynamicDims()))
    return emitOpError(
               "expected one size per dynamic dimension of the result: ")
           << result.getNumDynamicDims() << ", got " << getSizes().size();
  if (input.hasStaticShape() && result.hasStaticShape() &&
      input.getNumElements() != result.getNumElements())
    return emitOpError("expected a result of ")
           << input.getNumElements() << " elements, got "
           << result.getNumElements();
  return success();
}
