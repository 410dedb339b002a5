//===- NnNorm.cpp - Normalisation of rows ---------------------------------===//
//
// Types of results and derivatives of the ops of NnNorm.td.
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

static LogicalResult expectRows(Where loc, Value input, ValueRange vectors) {
  if (failed(expectNotScalar(loc, "input", input)))
    return failure();
  for (Value vector : vectors) {
    if (failed(expectRank(loc, "weight and bias", vector, 1)))
      return failure();
    if (failed(expectSize(loc, "size of the input's last dimension",
                          typeOf(vector).getDimSize(0),
                          typeOf(input).getShape().back())))
      return failure();
  }
  return success();
}

static Type onePerRow(Value input) {
  SmallVector<int64_t> shape(typeOf(input).getShape());
  shape.back() = 1;
  return tensorOf(shape, input);
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectRows(loc, op.getInput(), {op.getWeight(), op.getBias()})))
    return failure();
  types.append({op.getInput().getType(), onePerRow(op.getInput()),
                onePerRow(op.getInput())});
  return success();
}

LogicalResult LayerNormBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                    Adaptor op, Types &types) {
  if (failed(expectRows(loc, op.getInput(), {op.getWeight(), op.getBias()})))
    return failure();
  types.append({op.getInput().getType(), op.getWeight().getType(),
                op.getBias().getType()});
  return success();
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  if (failed(expectRows(loc, op.getInput(), op.getWeight())))
    return failure();
  types.append({op.getInput().getType(), onePerRow(op.getInput())});
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
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
    if (typeOf(g).isDynamicDim(last))
      return emitOpError("needs rows of a static size for its derivative");
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
