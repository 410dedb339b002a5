//===- NnParameter.cpp - Parameters of a model ----------------------------===//
//
// ODS verifies types; what follows from several attributes is verified here.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"

using namespace mlir;
using namespace sextant::nn;

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
