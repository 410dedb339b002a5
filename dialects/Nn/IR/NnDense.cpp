//===- NnDense.cpp - Embeddings and matrix products -----------------------===//
//
// Types of results and derivatives of the ops of NnDense.td.
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

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  SmallVector<int64_t> shape(typeOf(op.getIndices()).getShape());
  shape.push_back(typeOf(op.getWeight()).getDimSize(1));
  types.push_back(tensorOf(shape, op.getWeight()));
  return success();
}

LogicalResult EmbeddingBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                    Adaptor op, Types &types) {
  if (failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  types.push_back(typeOf(op.getWeight()));
  return success();
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  auto input = typeOf(op.getInput());
  if (failed(expectNotScalar(loc, "input", op.getInput())) ||
      failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  auto weight = typeOf(op.getWeight());
  if (failed(expectSameElements(loc, {op.getInput(), op.getWeight()})) ||
      failed(expectSize(loc, "size of the input's last dimension",
                        weight.getDimSize(1), input.getShape().back())))
    return failure();
  if (Value bias = op.getBias())
    if (failed(expectRank(loc, "bias", bias, 1)) ||
        failed(expectSize(loc, "size of the bias", weight.getDimSize(0),
                          typeOf(bias).getDimSize(0))))
      return failure();
  SmallVector<int64_t> shape(input.getShape().drop_back());
  shape.push_back(weight.getDimSize(0));
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  ArrayRef<int64_t> left = typeOf(op.getLeft()).getShape(),
                    right = typeOf(op.getRight()).getShape();
  if (failed(expectSameElements(loc, {op.getLeft(), op.getRight()})) ||
      failed(expectNotScalar(loc, "left operand", op.getLeft())))
    return failure();
  if (right.size() < 2)
    return emitOptionalError(
        loc, "right operand must have at least two dimensions, got ",
        typeOf(op.getRight()));
  if (right.size() > 2 && left.size() < 2)
    return emitOptionalError(
        loc,
        "left operand must have at least two dimensions where the right "
        "one has ",
        right.size(), ", got ", typeOf(op.getLeft()));
  if (failed(expectSize(loc, "size of the contracted dimension", left.back(),
                        right.drop_back().back())))
    return failure();
  Shape shape(left.drop_back());
  if (right.size() > 2) {
    shape.pop_back();
    if (!broadcastInto(shape, right.drop_back(2)))
      return emitOptionalError(
          loc, "cannot broadcast what comes before the matrices of ",
          typeOf(op.getLeft()), " and ", typeOf(op.getRight()));
    shape.push_back(left.drop_back().back());
  }
  shape.push_back(right.back());
  types.push_back(tensorOf(shape, op.getLeft()));
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (cotangents.wants(getWeightMutable()))
    cotangents.give(
        builder, getWeightMutable(),
        EmbeddingBackwardOp::create(builder, getLoc(),
                                    cotangents.of(getOperation()->getResult(0)),
                                    getIndices(), getWeight()));
  return success();
}

LogicalResult LinearOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  Location loc = getLoc();
  Value dy = cotangents.of(getOperation()->getResult(0));
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    MatmulOp::create(builder, loc, dy, getWeight()));
  if (cotangents.wants(getWeightMutable())) {
    Value rows = flattenRows(builder, loc, dy);
    Value turned = TransposeOp::create(builder, loc, rows, 0, 1);
    Value input = flattenRows(builder, loc, getInput());
    cotangents.give(builder, getWeightMutable(),
                    MatmulOp::create(builder, loc, turned, input));
  }
  if (getBias() && cotangents.wants(*getBiasMutable().begin()))
    cotangents.give(builder, *getBiasMutable().begin(),
                    sum(builder, loc, dy, allButLast(dy)));
  return success();
}

static Value transposeMatrices(OpBuilder &builder, Location loc, Value value) {
  int64_t rank = typeOf(value).getRank();
  return TransposeOp::create(builder, loc, value, rank - 2, rank - 1);
}

/// Of one matrix on the right: all rows of the left operand are one matrix.
static void buildGradientsOfMatrix(MatmulOp op, OpBuilder &builder,
                                   Cotangents &cotangents, Value dy) {
  Location loc = op.getLoc();
  if (cotangents.wants(op.getLeftMutable()))
    cotangents.give(builder, op.getLeftMutable(),
                    LinearOp::create(builder, loc, dy, op.getRight(), Value()));
  if (!cotangents.wants(op.getRightMutable()))
    return;
  Value left = flattenRows(builder, loc, op.getLeft());
  Value turned = transposeMatrices(builder, loc, left);
  Value rows = flattenRows(builder, loc, dy);
  cotangents.give(builder, op.getRightMutable(),
                  MatmulOp::create(builder, loc, turned, rows));
}

LogicalResult MatmulOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  Location loc = getLoc();
  Value dy = cotangents.of(getOperation()->getResult(0));
  if (typeOf(getRight()).getRank() == 2) {
    buildGradientsOfMatrix(*this, builder, cotangents, dy);
    return success();
  }
  if (cotangents.wants(getLeftMutable())) {
    Value turned = transposeMatrices(builder, loc, getRight());
    Value product = MatmulOp::create(builder, loc, dy, turned);
    cotangents.give(builder, getLeftMutable(),
                    sumToShapeOf(builder, loc, product, getLeft()));
  }
  if (cotangents.wants(getRightMutable())) {
    Value turned = transposeMatrices(builder, loc, getLeft());
    Value product = MatmulOp::create(builder, loc, turned, dy);
    cotangents.give(builder, getRightMutable(),
                    sumToShapeOf(builder, loc, product, getRight()));
  }
  return success();
}
