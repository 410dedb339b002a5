//===- PosGradients.cpp - Derivatives of attention and of row maps --------===//
//
// The gradient of an op that carries encodings is another op that carries the
// same encodings: pending uses, or sites once they are inlined.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::pos;

/// The numbers of the parameters whose gradients are wanted.
static SmallVector<int32_t> wantedParams(MutableOperandRange params,
                                         Cotangents &cotangents) {
  SmallVector<int32_t> numbers;
  for (auto [number, operand] : llvm::enumerate(params))
    if (cotangents.wants(operand))
      numbers.push_back(number);
  return numbers;
}

static SmallVector<Type> typesOf(OperandRange params,
                                 ArrayRef<int32_t> numbers) {
  return llvm::map_to_vector(
      numbers, [&](int32_t number) { return params[number].getType(); });
}

static void copySites(Region &from, Region &to) {
  IRMapping mapping;
  from.cloneInto(&to, mapping);
}

/// Rows are; parameters of encodings, positions and the tail are not.
bool AttentionOp::isMultiplied(OpOperand &operand) {
  return operand.getOperandNumber() < 2 + getValues().size();
}

bool AttentionOp::isOfProducts(OpResult result) {
  return result.getResultNumber() < getOutputs().size();
}

void AttentionOp::keepForGradients(OpBuilder &builder) {
  if (getStatistics())
    return;
  auto lse = cast<RankedTensorType>(getLse().getType());
  SmallVector<int64_t> shape(lse.getShape());
  shape.push_back(2);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  auto kept = AttentionOp::create(
      builder, getLoc(), getOutputs().getTypes(), lse, lse.clone(shape),
      getQuery(), getKey(), getValues(), getParams(), getQueryPositions(),
      getKeyPositions(), getQueryTail(), getUsesAttr(), getScaleAttr(),
      getUnorderedAttr());
  kept.getBody().takeBody(getBody());
  (*this)->replaceAllUsesWith(kept->getResults().drop_back());
  erase();
}

LogicalResult AttentionOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  SmallVector<int32_t> numbers = wantedParams(getParamsMutable(), cotangents);
  SmallVector<Value> outputGradients;
  for (Value output : getOutputs())
    outputGradients.push_back(
        cotangents.ofOrZeros(builder, cast<OpResult>(output)));
  Value lseGradient = cotangents.ofOrZeros(builder, cast<OpResult>(getLse()));
  auto backward = AttentionBackwardOp::create(
      builder, getLoc(), getQuery().getType(), getKey().getType(),
      getValues().getTypes(), typesOf(getParams(), numbers), getQuery(),
      getKey(), getValues(), getOutputs(), getStatistics(), outputGradients,
      lseGradient, getParams(), getQueryPositions(), getKeyPositions(),
      getQueryTail(), getUsesAttr(), builder.getDenseI32ArrayAttr(numbers),
      getScaleAttr(), getUnorderedAttr());
  copySites(getBody(), backward.getBody());

  auto give = [&](OpOperand &operand, Value gradient) {
    if (cotangents.wants(operand))
      cotangents.give(builder, operand, gradient);
  };
  give(getQueryMutable(), backward.getQueryGradient());
  give(getKeyMutable(), backward.getKeyGradient());
  for (auto [operand, gradient] :
       llvm::zip_equal(getValuesMutable(), backward.getValueGradients()))
    give(operand, gradient);
  for (auto [number, gradient] :
       llvm::zip_equal(numbers, backward.getParamGradientResults()))
    give(getParamsMutable()[number], gradient);
  return success();
}

LogicalResult MapRowsOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (getIndices())
    return emitOpError("with indices has no gradient: take the rows first, the "
                       "compiler joins the two afterwards");
  SmallVector<int32_t> numbers = wantedParams(getParamsMutable(), cotangents);
  auto backward = MapRowsBackwardOp::create(
      builder, getLoc(), getInput().getType(), typesOf(getParams(), numbers),
      getInput(), Value(), cotangents.of(cast<OpResult>(getResult())),
      getOperand(), getParams(), getPositions(), getUsesAttr(),
      builder.getDenseI32ArrayAttr(numbers));
  copySites(getBody(), backward.getBody());
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(), backward.getInputGradient());
  for (auto [number, gradient] :
       llvm::zip_equal(numbers, backward.getParamGradientResults()))
    cotangents.give(builder, getParamsMutable()[number], gradient);
  return success();
}
