//===- NnElementwise.cpp - Ops on the elements of tensors -----------------===//
//
// Types of results and derivatives of the ops of NnElementwise.td.
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

/// Ops of two operands, which are broadcast.
#define SEXTANT_NN_BINARY(Op)                                                  \
  LogicalResult Op::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,     \
                                     Types &types) {                           \
    return inferBroadcast(loc, {op.getLeft(), op.getRight()}, types);          \
  }
SEXTANT_NN_BINARY(AddOp)
SEXTANT_NN_BINARY(DivOp)
SEXTANT_NN_BINARY(MaximumOp)
SEXTANT_NN_BINARY(MinimumOp)
SEXTANT_NN_BINARY(MulOp)
SEXTANT_NN_BINARY(SubOp)
#undef SEXTANT_NN_BINARY

/// Ops of one operand, whose type is that of the result.
#define SEXTANT_NN_UNARY(Op)                                                   \
  LogicalResult Op::inferReturnTypes(MLIRContext *, Where, Adaptor op,         \
                                     Types &types) {                           \
    types.push_back(op.getInput().getType());                                  \
    return success();                                                          \
  }
SEXTANT_NN_UNARY(CosOp)
SEXTANT_NN_UNARY(ExpOp)
SEXTANT_NN_UNARY(GeluOp)
SEXTANT_NN_UNARY(LogOp)
SEXTANT_NN_UNARY(LogSigmoidOp)
SEXTANT_NN_UNARY(NegOp)
SEXTANT_NN_UNARY(SigmoidOp)
SEXTANT_NN_UNARY(SiluOp)
SEXTANT_NN_UNARY(SinOp)
SEXTANT_NN_UNARY(StopGradientOp)
#undef SEXTANT_NN_UNARY

LogicalResult GeluBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                               Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getInput(), types);
}
LogicalResult SigmoidBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                  Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getOutput(), types);
}
LogicalResult SiluBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                               Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getInput(), types);
}

LogicalResult ClampOp::verify() {
  if (!getFloor() && !getCeiling())
    return emitOpError("expected a floor, a ceiling or both");
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
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

LogicalResult SubOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  Value dz = cotangents.of(getOperation()->getResult(0));
  if (cotangents.wants(getLeftMutable()))
    cotangents.give(builder, getLeftMutable(),
                    sumToShapeOf(builder, getLoc(), dz, getLeft()));
  if (cotangents.wants(getRightMutable())) {
    Value sum = sumToShapeOf(builder, getLoc(), dz, getRight());
    cotangents.give(builder, getRightMutable(),
                    NegOp::create(builder, getLoc(), sum));
  }
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

/// d(x / y) = dx / y - (x / y) dy / y.
LogicalResult DivOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  Location loc = getLoc();
  bool left = cotangents.wants(getLeftMutable()),
       right = cotangents.wants(getRightMutable());
  if (!left && !right)
    return success();
  Value dz = cotangents.of(getOperation()->getResult(0));
  Value part = DivOp::create(builder, loc, dz, getRight());
  if (left)
    cotangents.give(builder, getLeftMutable(),
                    sumToShapeOf(builder, loc, part, getLeft()));
  if (right) {
    Value product = MulOp::create(builder, loc, part, getResult());
    Value sum = sumToShapeOf(builder, loc, product, getRight());
    cotangents.give(builder, getRightMutable(),
                    NegOp::create(builder, loc, sum));
  }
  return success();
}

/// Gives the operand of a unary op what `derivative` makes of the result's
/// cotangent.
template <typename Op>
static LogicalResult
giveUnary(Op op, OpBuilder &builder, Cotangents &cotangents,
          llvm::function_ref<Value(Location, Value)> derivative) {
  if (cotangents.wants(op.getInputMutable()))
    cotangents.give(builder, op.getInputMutable(),
                    derivative(op.getLoc(),
                               cotangents.of(op.getOperation()->getResult(0))));
  return success();
}

LogicalResult NegOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     return NegOp::create(builder, loc, dy);
                   });
}

LogicalResult ExpOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     return MulOp::create(builder, loc, dy, getResult());
                   });
}

LogicalResult LogOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     return DivOp::create(builder, loc, dy, getInput());
                   });
}

LogicalResult CosOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     Value sine = SinOp::create(builder, loc, getInput());
                     Value product = MulOp::create(builder, loc, dy, sine);
                     return NegOp::create(builder, loc, product);
                   });
}

LogicalResult SinOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     Value cosine = CosOp::create(builder, loc, getInput());
                     return MulOp::create(builder, loc, dy, cosine);
                   });
}

LogicalResult SigmoidOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  return giveUnary(
      *this, builder, cotangents, [&](Location loc, Value dy) -> Value {
        return SigmoidBackwardOp::create(builder, loc, dy, getResult());
      });
}

LogicalResult LogSigmoidOp::buildGradients(OpBuilder &builder,
                                           Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     Value negative = NegOp::create(builder, loc, getInput());
                     Value slope = SigmoidOp::create(builder, loc, negative);
                     return MulOp::create(builder, loc, dy, slope);
                   });
}

LogicalResult GeluOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  return giveUnary(
      *this, builder, cotangents, [&](Location loc, Value dy) -> Value {
        return GeluBackwardOp::create(builder, loc, dy, getInput(), getForm());
      });
}

LogicalResult SiluOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  return giveUnary(
      *this, builder, cotangents, [&](Location loc, Value dy) -> Value {
        return SiluBackwardOp::create(builder, loc, dy, getInput());
      });
}

LogicalResult ScaleOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  return giveUnary(*this, builder, cotangents,
                   [&](Location loc, Value dy) -> Value {
                     return ScaleOp::create(builder, loc, dy, getFactorAttr());
                   });
}
