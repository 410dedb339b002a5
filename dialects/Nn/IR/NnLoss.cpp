//===- NnLoss.cpp - Softmax and cross entropy -----------------------------===//
//
// Types of results and derivatives of the ops of NnLoss.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnGradients.h"
#include "dialects/Nn/IR/NnTypes.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  if (failed(expectNotScalar(loc, "input", op.getInput())))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}
LogicalResult SoftmaxBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                  Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getOutput(), types);
}

LogicalResult LogSoftmaxOp::inferReturnTypes(MLIRContext *, Where loc,
                                             Adaptor op, Types &types) {
  if (failed(expectNotScalar(loc, "input", op.getInput())))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}
LogicalResult LogSoftmaxBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                     Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getOutput(), types);
}

LogicalResult NllLossOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  auto rows = typeOf(op.getLogProbabilities());
  if (failed(
          expectRank(loc, "log probabilities", op.getLogProbabilities(), 2)) ||
      failed(expectSize(loc, "number of labels", rows.getDimSize(0),
                        typeOf(op.getLabels()).getDimSize(0))))
    return failure();
  SmallVector<int64_t> shape;
  if (op.getReduction() == Reduction::none)
    shape.push_back(rows.getDimSize(0));
  types.push_back(tensorOf(shape, op.getLogProbabilities()));
  types.push_back(tensorOf({}, op.getLogProbabilities()));
  return success();
}

LogicalResult NllLossBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                  Adaptor op, Types &types) {
  if (failed(expectRank(loc, "log probabilities", op.getLogProbabilities(), 2)))
    return failure();
  types.push_back(op.getLogProbabilities().getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        SoftmaxBackwardOp::create(builder, getLoc(),
                                  cotangents.of(getOperation()->getResult(0)),
                                  getResult()));
  return success();
}

LogicalResult LogSoftmaxOp::buildGradients(OpBuilder &builder,
                                           Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    LogSoftmaxBackwardOp::create(
                        builder, getLoc(),
                        cotangents.of(getOperation()->getResult(0)),
                        getResult()));
  return success();
}

LogicalResult NllLossOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (!cotangents.wants(getLogProbabilitiesMutable()))
    return success();
  auto loss = cast<OpResult>(getLoss());
  cotangents.give(builder, getLogProbabilitiesMutable(),
                  NllLossBackwardOp::create(
                      builder, getLoc(), cotangents.ofOrZeros(builder, loss),
                      getLogProbabilities(), getLabels(), getCount(),
                      getReduction(), getIgnore()));
  return success();
}
