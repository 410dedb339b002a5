//===- NnInteger.cpp - Integers, conditions and conversions ---------------===//
//
// Types of results, calls and derivatives of the ops of NnInteger.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnGradients.h"
#include "dialects/Nn/IR/NnTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult FloorDivideOp::inferReturnTypes(MLIRContext *, Where loc,
                                              Adaptor op, Types &types) {
  return inferBroadcast(loc, {op.getLeft(), op.getRight()}, types);
}
LogicalResult RemainderOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  return inferBroadcast(loc, {op.getLeft(), op.getRight()}, types);
}

LogicalResult PowerOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  return inferBroadcast(loc, {op.getLeft(), op.getRight()}, types);
}

/// A condition of the broadcast shape of two operands.
static LogicalResult inferCondition(Where loc, Value left, Value right,
                                    Types &types) {
  if (failed(inferBroadcast(loc, {left, right}, types)))
    return failure();
  auto type = cast<RankedTensorType>(types.back());
  types.back() = type.clone(IntegerType::get(type.getContext(), 1));
  return success();
}

LogicalResult EqualOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  return inferCondition(loc, op.getLeft(), op.getRight(), types);
}
LogicalResult LessOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                       Types &types) {
  return inferCondition(loc, op.getLeft(), op.getRight(), types);
}
LogicalResult AtMostOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  return inferCondition(loc, op.getLeft(), op.getRight(), types);
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  if (failed(expectSameElements(loc, {op.getThen(), op.getOtherwise()})))
    return failure();
  FailureOr<Shape> shape =
      broadcast(loc, {op.getCondition(), op.getThen(), op.getOtherwise()});
  if (failed(shape))
    return failure();
  types.push_back(tensorOf(*shape, op.getThen()));
  return success();
}

/// A tensor of places.
static RankedTensorType placesOf(ArrayRef<int64_t> shape, Value like) {
  return tensorOf(shape, like).clone(IntegerType::get(like.getContext(), 64));
}

LogicalResult UniqueOp::inferReturnTypes(MLIRContext *, Where, Adaptor op,
                                         Types &types) {
  Value input = op.getInput();
  types.push_back(tensorOf({ShapedType::kDynamic}, input));
  types.push_back(placesOf(typeOf(input).getShape(), input));
  types.push_back(placesOf({ShapedType::kDynamic}, input));
  return success();
}

LogicalResult SearchOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  if (failed(expectSameElements(loc, {op.getWanted(), op.getSorted()})))
    return failure();
  types.push_back(placesOf(typeOf(op.getWanted()).getShape(), op.getWanted()));
  return success();
}

LogicalResult ArgminOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  auto dim = static_cast<int64_t>(op.getDim());
  if (failed(expectDim(loc, dim, op.getInput())))
    return failure();
  Shape shape(typeOf(op.getInput()).getShape());
  shape.erase(shape.begin() + dim);
  types.push_back(placesOf(shape, op.getInput()));
  return success();
}

LogicalResult AllOp::inferReturnTypes(MLIRContext *, Where, Adaptor op,
                                      Types &types) {
  types.push_back(tensorOf({}, op.getInput()));
  return success();
}

LogicalResult IotaOp::verify() {
  bool dynamic = typeOf(getResult()).isDynamicDim(0);
  if (dynamic && !getLength())
    return emitOpError("expected a length, as the size of ")
           << getType() << " is dynamic";
  if (!dynamic && getLength())
    return emitOpError("expected no length, as the size of ")
           << getType() << " is known";
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

StringRef CastOp::getAtenName() { return "aten::_to_copy"; }

void CastOp::buildAtenArguments(AtenArguments &arguments) {
  arguments.tensor(getInput());
  arguments.dtype(getType().getElementType());
}

StringRef IotaOp::getAtenName() { return "aten::arange"; }

void IotaOp::buildAtenArguments(AtenArguments &arguments) {
  if (getLength())
    arguments.integer(getLength());
  else
    arguments.integer(typeOf(getResult()).getDimSize(0));
  arguments.dtype(getType().getElementType());
}

StringRef ScalarOp::getAtenName() { return "aten::scalar_tensor"; }

void ScalarOp::buildAtenArguments(AtenArguments &arguments) {
  arguments.integer(getValue());
  arguments.dtype(getType().getElementType());
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult SelectOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  Location loc = getLoc();
  Value dz = cotangents.of(getOperation()->getResult(0));
  auto give = [&](OpOperand &operand, bool chosen) {
    if (!cotangents.wants(operand))
      return;
    Value zero = arith::ConstantOp::create(
        builder, loc, builder.getZeroAttr(tensorOf({}, dz)));
    Value part = SelectOp::create(builder, loc, getCondition(),
                                  chosen ? dz : zero, chosen ? zero : dz);
    cotangents.give(builder, operand,
                    sumToShapeOf(builder, loc, part, operand.get()));
  };
  give(getThenMutable(), true);
  give(getOtherwiseMutable(), false);
  return success();
}

LogicalResult CastOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        CastOp::create(builder, getLoc(), getInput().getType(),
                       cotangents.of(getOperation()->getResult(0))));
  return success();
}
