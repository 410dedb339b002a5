//===- Payload.cpp - Forward emission of payloads -------------------------===//
//
// Clones the ops of a payload at a point. Values stay scalars until
// they meet a vector of lanes. Ops that are more than elementwise say how they
// are emitted (EmittableOpInterface).
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/Payload.h"
#include "codegen/Payload/EmittableOps.h"
#include "codegen/Payload/IntegerArithmetic.h"
#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

Type PayloadEmitter::convert(Type type) {
  return type.isF32() ? point.getComputeType() : type;
}

Type PayloadEmitter::toLanes(Type type) const {
  if (isa<VectorType>(type) || point.getLanes() == 1)
    return type;
  return VectorType::get({point.getLanes()}, type);
}

Value PayloadEmitter::toLanes(Value value) {
  Type type = toLanes(value.getType());
  if (type == value.getType())
    return value;
  return vector::BroadcastOp::create(builder, value.getLoc(), type, value);
}

Value PayloadEmitter::constant(Location loc, double value) {
  return arith::ConstantOp::create(
      builder, loc, builder.getFloatAttr(point.getComputeType(), value));
}

Value PayloadEmitter::constantInt(Location loc, int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI32IntegerAttr(value));
}

//===----------------------------------------------------------------------===//
// Values from outside of the payload
//===----------------------------------------------------------------------===//

Value PayloadEmitter::get(Value value) {
  if (Value emitted = values.lookupOrNull(value))
    return emitted;
  Operation *op = value.getDefiningOp();
  if (auto hoist = dyn_cast_or_null<pos::HoistOp>(op)) {
    Value emitted = point.hoisted(builder, hoist);
    if (emitted)
      values.map(value, emitted);
    return emitted;
  }
  if (op && op->hasTrait<OpTrait::ConstantLike>() &&
      succeeded(emitConstant(*op)))
    return values.lookup(value);
  if (op)
    op->emitOpError("cannot be used by a payload");
  else
    emitError(value.getLoc(), "parameters are read by 'pos.read' only");
  return {};
}

LogicalResult PayloadEmitter::prepare(Block &body, Region *outermost) {
  if (!outermost)
    outermost = body.getParent();
  for (Operation &op : body) {
    if (isa<pos::ContextOpInterface>(op)) {
      if (failed(emitOp(op)))
        return failure();
      prepared.insert(&op);
      continue;
    }
    for (Value operand : op.getOperands()) {
      bool local = operand.getParentRegion() &&
                   outermost->isAncestor(operand.getParentRegion());
      if (!local && !isa<RankedTensorType>(operand.getType()) && !get(operand))
        return failure();
    }
    for (Region &region : op.getRegions())
      if (failed(prepare(region.front(), outermost)))
        return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult PayloadEmitter::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (!prepared.contains(&op) && failed(emitOp(op)))
      return failure();
  return success();
}

LogicalResult PayloadEmitter::emitAround(Block &body) {
  auto sum = dyn_cast<pos::RunningSumOp>(body.getParentOp());
  if (!sum)
    return success();
  for (Operation &op : *sum->getBlock()) {
    if (&op == sum)
      break;
    if (failed(emitOp(op)))
      return failure();
  }
  return success();
}

LogicalResult PayloadEmitter::emitConstant(Operation &op) {
  Attribute attr;
  if (!matchPattern(op.getResult(0), m_Constant(&attr)))
    return failure();
  Type type = convert(op.getResult(0).getType());
  if (auto number = dyn_cast<FloatAttr>(attr)) {
    auto exact = type.isF64() ? dyn_cast_or_null<FloatAttr>(pos::getExact(&op))
                              : FloatAttr();
    attr =
        builder.getFloatAttr(type, (exact ? exact : number).getValueAsDouble());
  }
  auto typed = dyn_cast<TypedAttr>(attr);
  if (!typed || !type.isIntOrFloat())
    return op.emitOpError("is not a scalar constant");
  values.map(
      op.getResult(0),
      arith::ConstantOp::create(builder, op.getLoc(), typed).getResult());
  return success();
}

LogicalResult PayloadEmitter::emitOp(Operation &op) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    return emitConstant(op);
  if (auto context = dyn_cast<pos::ContextOpInterface>(op)) {
    Value value = context.materialize(builder, point);
    if (!value)
      return op.emitOpError("has no value at this place");
    values.map(op.getResult(0), value);
    return success();
  }
  if (auto emittable = dyn_cast<EmittableOpInterface>(op))
    return emittable.emit(*this);
  if (OpTrait::hasElementwiseMappableTraits(&op) && op.getNumRegions() == 0)
    return emitElementwise(op);
  return op.emitOpError("has no kernel on this target");
}

LogicalResult PayloadEmitter::emitElementwise(Operation &op) {
  SmallVector<Value> operands;
  bool anyVector = false;
  for (Value operand : op.getOperands()) {
    if (isa<ShapedType>(operand.getType()))
      return op.emitOpError("on tensors has no kernel on this target");
    operands.push_back(get(operand));
    if (!operands.back())
      return failure();
    anyVector |= isa<VectorType>(operands.back().getType());
  }
  if (isa<arith::BitcastOp>(op) && !point.getComputeType().isF32())
    return op.emitOpError("is not defined in ") << point.getComputeType();
  Operation *clone = op.cloneWithoutRegions();
  for (auto [i, operand] : llvm::enumerate(operands))
    clone->setOperand(i, anyVector ? toLanes(operand) : operand);
  for (OpResult result : clone->getResults()) {
    Type type = convert(result.getType());
    result.setType(anyVector ? toLanes(type) : type);
  }
  if (op.getNumResults() == 1) {
    values.map(op.getResult(0), insertDefined(builder, clone, op));
    return success();
  }
  builder.insert(clone);
  values.map(op.getResults(), clone->getResults());
  return success();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> codegen::emitPayload(OpBuilder &builder,
                                                   Block &block,
                                                   ValueRange arguments,
                                                   PayloadPoint &point) {
  PayloadEmitter emitter(builder, point);
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    emitter.bind(argument, value);
  if (failed(emitter.emitAround(block)) || failed(emitter.emitBlock(block)))
    return failure();
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands()) {
    results.push_back(emitter.get(value));
    if (!results.back())
      return failure();
  }
  return results;
}

FailureOr<Value> codegen::emitHoist(OpBuilder &builder, pos::HoistOp hoist,
                                    PayloadPoint &point) {
  FailureOr<SmallVector<Value>> values =
      emitPayload(builder, hoist.getBody().front(), {}, point);
  if (failed(values))
    return failure();
  return values->front();
}
