//===- NnGradients.cpp - Derivatives of the nn ops ------------------------===//
//
// The derivative of each op is written in ops of nn again, so that a gradient
// is a graph like any other. An operand that was broadcast gets the sum of the
// gradients of its copies.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static SmallVector<int64_t> allButLast(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank() - 1));
}

/// The dynamic sizes of a value, as index values.
static SmallVector<Value> dynamicSizes(OpBuilder &builder, Location loc,
                                       Value value) {
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(typeOf(value).getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(builder, loc, value, dim));
  return sizes;
}

/// [..., n] as [rows, n].
static Value flattenRows(OpBuilder &builder, Location loc, Value value) {
  RankedTensorType type = typeOf(value);
  if (type.getRank() == 2)
    return value;
  int64_t rows = 1;
  Value dynamicRows;
  for (int64_t dim : allButLast(value))
    if (!type.isDynamicDim(dim))
      rows *= type.getDimSize(dim);
  for (int64_t dim : allButLast(value)) {
    if (!type.isDynamicDim(dim))
      continue;
    Value size = tensor::DimOp::create(builder, loc, value, dim);
    dynamicRows = dynamicRows
                      ? arith::MulIOp::create(builder, loc, dynamicRows, size)
                      : size;
  }
  if (dynamicRows && rows != 1)
    dynamicRows = arith::MulIOp::create(
        builder, loc, dynamicRows,
        arith::ConstantIndexOp::create(builder, loc, rows));
  int64_t shape[] = {dynamicRows ? ShapedType::kDynamic : rows,
                     type.getShape().back()};
  return ReshapeOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
      dynamicRows ? ValueRange(dynamicRows) : ValueRange());
}

static Value sum(OpBuilder &builder, Location loc, Value value,
                 ArrayRef<int64_t> dims, bool keep = false) {
  if (dims.empty())
    return value;
  return SumOp::create(builder, loc, value, dims, keep);
}

/// The gradient of an operand that was broadcast to the shape of `gradient`.
static Value sumToShapeOf(OpBuilder &builder, Location loc, Value gradient,
                          Value operand) {
  RankedTensorType to = typeOf(operand);
  int64_t extra = typeOf(gradient).getRank() - to.getRank();
  gradient = sum(builder, loc, gradient,
                 llvm::to_vector(llvm::seq<int64_t>(0, extra)));
  SmallVector<int64_t> repeated;
  for (auto [dim, size] : llvm::enumerate(to.getShape()))
    if (size == 1 && typeOf(gradient).getDimSize(dim) != 1)
      repeated.push_back(dim);
  return sum(builder, loc, gradient, repeated, /*keep=*/true);
}

//===----------------------------------------------------------------------===//
// Embeddings and matrix products
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

LogicalResult MatmulOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  Location loc = getLoc();
  Value dy = cotangents.of(getOperation()->getResult(0));
  if (cotangents.wants(getLeftMutable()))
    cotangents.give(builder, getLeftMutable(),
                    LinearOp::create(builder, loc, dy, getRight(), Value()));
  if (cotangents.wants(getRightMutable())) {
    Value left = flattenRows(builder, loc, getLeft());
    Value turned = TransposeOp::create(builder, loc, left, 0, 1);
    Value rows = flattenRows(builder, loc, dy);
    cotangents.give(builder, getRightMutable(),
                    MatmulOp::create(builder, loc, turned, rows));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

LogicalResult AddOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  Value dz = cotangents.of(getOperation()->getResult(0));
  for (OpOperand &operand : getOperation()->getOpOperands())
    if (cotangents.wants(operand))
      cotangents.give(builder, operand,
                      sumToShapeOf(builder, getLoc(), dz, operand.get()));
  return success();
}

LogicalResult MulOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  Value dz = cotangents.of(getOperation()->getResult(0));
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (!cotangents.wants(operand))
      continue;
    Value other = getOperand(1 - operand.getOperandNumber());
    Value product = MulOp::create(builder, getLoc(), dz, other);
    cotangents.give(builder, operand,
                    sumToShapeOf(builder, getLoc(), product, operand.get()));
  }
  return success();
}

LogicalResult GeluOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        GeluBackwardOp::create(builder, getLoc(),
                               cotangents.of(getOperation()->getResult(0)),
                               getInput(), getForm()));
  return success();
}

LogicalResult SiluOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        SiluBackwardOp::create(builder, getLoc(),
                               cotangents.of(getOperation()->getResult(0)),
                               getInput()));
  return success();
}

LogicalResult ScaleOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    ScaleOp::create(builder, getLoc(),
                                    cotangents.of(getOperation()->getResult(0)),
                                    getFactorAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// A gradient through the row statistics is refused: nothing in a model uses
/// them.
static LogicalResult refuseStatistics(Operation *op, Cotangents &cotangents) {
  for (OpResult result : op->getResults().drop_front())
    if (cotangents.of(result))
      return op->emitOpError("has no derivative of result ")
             << result.getResultNumber();
  return success();
}

LogicalResult LayerNormOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (failed(refuseStatistics(*this, cotangents)))
    return failure();
  auto backward = LayerNormBackwardOp::create(
      builder, getLoc(), cotangents.of(getOperation()->getResult(0)),
      getInput(), getWeight(), getBias(), getMean(), getRstd());
  for (auto [operand, gradient] :
       llvm::zip_equal(getOperation()->getOpOperands(), backward.getResults()))
    if (cotangents.wants(operand))
      cotangents.give(builder, operand, gradient);
  return success();
}

/// With n = x rstd and g = dy weight: dweight sums dy n over the rows,
/// dx = rstd (g - n mean(g n)) (Zhang and Sennrich 2019).
LogicalResult RmsNormOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (failed(refuseStatistics(*this, cotangents)))
    return failure();
  Location loc = getLoc();
  Value dy = cotangents.of(getOperation()->getResult(0));
  Value normalised = MulOp::create(builder, loc, getInput(), getRstd());
  if (cotangents.wants(getWeightMutable())) {
    Value product = MulOp::create(builder, loc, dy, normalised);
    cotangents.give(builder, getWeightMutable(),
                    sum(builder, loc, product, allButLast(product)));
  }
  if (cotangents.wants(getInputMutable())) {
    Value g = MulOp::create(builder, loc, dy, getWeight());
    int64_t last = typeOf(g).getRank() - 1;
    Value dot =
        sum(builder, loc, MulOp::create(builder, loc, g, normalised), {last},
            /*keep=*/true);
    double factor = -1.0 / static_cast<double>(typeOf(g).getDimSize(last));
    Value mean =
        ScaleOp::create(builder, loc, dot, builder.getF64FloatAttr(factor));
    Value shift = MulOp::create(builder, loc, normalised, mean);
    Value inner = AddOp::create(builder, loc, g, shift);
    cotangents.give(builder, getInputMutable(),
                    MulOp::create(builder, loc, inner, getRstd()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes, parts and sums
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        ReshapeOp::create(builder, getLoc(), getInput().getType(),
                          cotangents.of(getOperation()->getResult(0)),
                          dynamicSizes(builder, getLoc(), getInput())));
  return success();
}

LogicalResult TransposeOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        TransposeOp::create(builder, getLoc(),
                            cotangents.of(getOperation()->getResult(0)),
                            getFirst(), getSecond()));
  return success();
}

LogicalResult SliceOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        SliceBackwardOp::create(builder, getLoc(),
                                cotangents.of(getOperation()->getResult(0)),
                                getInput(), getDim(), getStart(), getLength()));
  return success();
}

LogicalResult SplitOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  SmallVector<Value> parts;
  for (OpResult part : getOperation()->getResults())
    parts.push_back(cotangents.ofOrZeros(builder, part));
  cotangents.give(builder, getInputMutable(),
                  ConcatOp::create(builder, getLoc(), parts, getDim()));
  return success();
}

LogicalResult ConcatOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  SmallVector<int64_t> lengths;
  for (Value part : getParts()) {
    lengths.push_back(typeOf(part).getDimSize(getDim()));
    if (ShapedType::isDynamic(lengths.back()))
      return emitOpError("has no derivative where the joined dimension is "
                         "dynamic, as in ")
             << part.getType();
  }
  auto split = SplitOp::create(builder, getLoc(),
                               cotangents.of(getOperation()->getResult(0)),
                               getDim(), lengths);
  for (auto [operand, gradient] :
       llvm::zip_equal(getPartsMutable(), split.getParts()))
    if (cotangents.wants(operand))
      cotangents.give(builder, operand, gradient);
  return success();
}

LogicalResult SumOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  Value dy = cotangents.of(getOperation()->getResult(0));
  Value input = getInput();
  if (!getKeep()) {
    SmallVector<int64_t> shape(typeOf(input).getShape());
    for (int64_t dim : getDims())
      shape[dim] = 1;
    SmallVector<Value> sizes;
    for (auto [dim, size] : llvm::enumerate(shape))
      if (ShapedType::isDynamic(size))
        sizes.push_back(tensor::DimOp::create(builder, getLoc(), input, dim));
    dy = ReshapeOp::create(
        builder, getLoc(),
        RankedTensorType::get(shape, typeOf(input).getElementType()), dy,
        sizes);
  }
  cotangents.give(builder, getInputMutable(),
                  BroadcastOp::create(builder, getLoc(), dy, input));
  return success();
}

LogicalResult BroadcastOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    sumToShapeOf(builder, getLoc(),
                                 cotangents.of(getOperation()->getResult(0)),
                                 getInput()));
  return success();
}
