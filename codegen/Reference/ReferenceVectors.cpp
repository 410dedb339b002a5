//===- ReferenceVectors.cpp - Payloads with vectors, run literally --------===//
//
// A condition is kept as 1 or 0 of the compute type. Scalars of the payload are
// emitted as those of a payload of one head; bodies of `pos.for_heads` are such
// payloads.
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/ReferenceVectors.h"
#include "codegen/Tables/PayloadCall.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static bool isVector(Value value) {
  return isa<RankedTensorType>(value.getType());
}
static bool isFloatVector(Value value) {
  return isVector(value) && isa<FloatType>(getElementTypeOrSelf(value));
}
static int64_t getExtent(Value vector) {
  return cast<RankedTensorType>(vector.getType()).getDimSize(0);
}
static bool makesVector(Operation &op) {
  return op.getNumResults() == 1 && isVector(op.getResult(0));
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Hoisted vectors that a payload uses.
static llvm::SetVector<Operation *> getHoistedVectors(Block &block) {
  llvm::SetVector<Operation *> hoists;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      if (auto hoist = operand.getDefiningOp<pos::HoistOp>();
          hoist && isVector(operand))
        hoists.insert(hoist);
  return hoists;
}

int64_t VectorPayload::countElements(Block &block) {
  int64_t count = 0;
  for (BlockArgument argument : block.getArguments())
    count += 2 * getExtent(argument);
  for (Operation &op : block)
    if (makesVector(op))
      count += 2 * getExtent(op.getResult(0));
  for (Operation *hoist : getHoistedVectors(block))
    count += countElements(hoist->getRegion(0).front());
  return count;
}

void VectorPayload::allocate(Value vector) {
  int64_t extent = getExtent(vector);
  Matrix value = r.allocate(1, extent), cotangent = r.allocate(1, extent);
  buffers.insert({vector, {value, cotangent, extent}});
}

VectorPayload::VectorPayload(ReferenceBuilder &r, Block &block)
    : r(r), block(block) {
  for (BlockArgument argument : block.getArguments())
    allocate(argument);
  for (Operation &op : block)
    if (makesVector(op))
      allocate(op.getResult(0));
  for (Operation *hoist : getHoistedVectors(block)) {
    Block &body = hoist->getRegion(0).front();
    auto payload = std::make_unique<VectorPayload>(r, body);
    buffers.insert({hoist->getResult(0),
                    {payload->getResult(), payload->getResultCotangent(),
                     getExtent(hoist->getResult(0))}});
    nested.insert({hoist, std::move(payload)});
  }
}

void VectorPayload::forEach(int64_t extent, function_ref<void(Value)> body) {
  r.k.loop(0, extent, 1, body);
}

/// Outside of `pos.for_heads` the point stands at no head.
void VectorPayload::leaveHeads() { r.point.setHead(Value()); }

Value VectorPayload::getElement(PayloadEmitter &scalars, Value operand,
                                Value n) {
  if (!isVector(operand))
    return scalars.get(operand);
  Value element = r.load(of(operand).value, 0, n);
  if (isFloatVector(operand))
    return element;
  return r.k.compareF(arith::CmpFPredicate::UNE, element, r.constant(0.0));
}

Value VectorPayload::readElement(Value param, ValueRange indices) {
  SmallVector<Value> at;
  for (Value index : indices)
    at.push_back(r.k.toI32(index));
  return r.point.read(r.k.builder, cast<BlockArgument>(param), at);
}

void VectorPayload::addToParam(Value param, ValueRange indices,
                               Value cotangent) {
  SmallVector<Value> at;
  for (Value index : indices)
    at.push_back(r.k.toI32(index));
  r.point.addToRead(r.k.builder, cast<BlockArgument>(param), at, cotangent);
}

static Index getFirstColumn(pos::ContractOp op) {
  APInt first;
  if (op.getFirstColumn() &&
      matchPattern(op.getFirstColumn(), m_ConstantInt(&first)))
    return first.getSExtValue();
  return 0;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void VectorPayload::emit() {
  for (auto &entry : nested)
    entry.second->emit();
  PayloadEmitter scalars(r.k.builder, r.point);
  for (Operation &op : block.without_terminator()) {
    if (failed(r.k.getStatus()))
      return;
    if (makesVector(op))
      emitVector(op, scalars);
    else
      r.k.check(scalars.emitOp(op));
  }
}

void VectorPayload::emitVector(Operation &op, PayloadEmitter &scalars) {
  Value result = op.getResult(0);
  const Buffer &buffer = of(result);
  DenseElementsAttr elements;
  if (matchPattern(result, m_Constant(&elements)))
    return emitConstant(op, elements);
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    Value value = scalars.get(splat.getInput());
    if (!value)
      return r.k.check(failure());
    return forEach(buffer.extent,
                   [&](Value n) { r.store(buffer.value, 0, n, value); });
  }
  if (auto read = dyn_cast<pos::ElementsOp>(op))
    return forEach(buffer.extent, [&](Value n) {
      r.store(buffer.value, 0, n, readElement(read.getParam(), n));
    });
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return emitContract(contract);
  if (auto atHeads = dyn_cast<pos::ForHeadsOp>(op))
    return emitForHeads(atHeads);
  return emitElementwise(op, scalars);
}

void VectorPayload::emitConstant(Operation &op, DenseElementsAttr elements) {
  const Buffer &buffer = of(op.getResult(0));
  if (auto exact = dyn_cast_or_null<DenseElementsAttr>(pos::getExact(&op)))
    elements = exact; // rounded where it is stored in f32
  auto valueOf = [](Attribute element) {
    if (auto number = dyn_cast<FloatAttr>(element))
      return number.getValueAsDouble();
    return cast<IntegerAttr>(element).getValue().isZero() ? 0.0 : 1.0;
  };
  if (elements.isSplat()) {
    double value = valueOf(elements.getSplatValue<Attribute>());
    forEach(buffer.extent,
            [&](Value n) { r.store(buffer.value, 0, n, r.constant(value)); });
    return;
  }
  for (auto [n, element] : llvm::enumerate(elements.getValues<Attribute>()))
    r.store(buffer.value, 0, static_cast<int64_t>(n),
            r.constant(valueOf(element)));
}

void VectorPayload::emitContract(pos::ContractOp op) {
  const Buffer &vector = of(op.getVector()), &result = of(op.getResult());
  Index first = getFirstColumn(op);
  forEach(result.extent, [&](Value row) {
    Value sum = r.sum(vector.extent, [&](Value n) {
      Value column = r.k.value(r.k.add(first, n));
      Value weight = readElement(op.getMatrix(), {row, column});
      return r.mul(weight, r.load(vector.value, 0, n));
    });
    r.store(result.value, 0, row, sum);
  });
}

/// The arguments of the body at a head, where the point stands from then on.
SmallVector<Value> VectorPayload::enterHead(pos::ForHeadsOp op, Value head) {
  r.point.setHead(r.k.toI32(head));
  SmallVector<Value> arguments;
  for (Value input : op.getInputs())
    arguments.push_back(r.load(of(input).value, 0, head));
  return arguments;
}

void VectorPayload::emitForHeads(pos::ForHeadsOp op) {
  forEach(of(op.getResult()).extent, [&](Value head) {
    SmallVector<Value> arguments = enterHead(op, head);
    r.store(of(op.getResult()).value, 0, head,
            callPayload(r.k, op.getBody().front(), arguments, r.point).front());
  });
  leaveHeads();
}

void VectorPayload::emitElementwise(Operation &op, PayloadEmitter &scalars) {
  const Buffer &buffer = of(op.getResult(0));
  Type element = getElementTypeOrSelf(op.getResult(0));
  bool isCondition = element.isInteger(1);
  if (!OpTrait::hasElementwiseMappableTraits(&op) ||
      (!element.isF32() && !isCondition))
    return r.k.check(op.emitOpError("on vectors has no kernel on this target"));
  forEach(buffer.extent, [&](Value n) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(getElement(scalars, operand, n));
    if (llvm::is_contained(operands, Value()))
      return r.k.check(failure());
    Operation *clone = op.cloneWithoutRegions();
    clone->setOperands(operands);
    clone->getResult(0).setType(isCondition ? element : Type(r.type));
    r.k.builder.insert(clone);
    Value value = clone->getResult(0);
    if (isCondition)
      value = r.k.selectF(value, r.constant(1.0), r.constant(0.0));
    r.store(buffer.value, 0, n, value);
  });
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

void VectorPayload::pull() {
  for (auto &[vector, buffer] : buffers)
    if (vector != getYielded())
      r.clear(buffer.cotangent, 1);
  PayloadEmitter scalars(r.k.builder, r.point);
  for (Operation &op : block.without_terminator())
    if (!makesVector(op))
      r.k.check(scalars.emitOp(op));
  scalarCotangents.clear();
  for (Operation &op : llvm::reverse(block))
    if (makesVector(op) && succeeded(r.k.getStatus()))
      pullVector(op, scalars);
  if (failed(r.k.getStatus()))
    return;
  r.k.check(emitScalarPullback(scalars, block, scalarCotangents));
  for (auto &[hoist, payload] : llvm::reverse(nested))
    if (r.point.wantsGradient(cast<pos::HoistOp>(hoist)))
      payload->pull();
}

void VectorPayload::pullVector(Operation &op, PayloadEmitter &scalars) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    return;
  const Buffer &buffer = of(op.getResult(0));
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    Value sum = r.sum(buffer.extent,
                      [&](Value n) { return r.load(buffer.cotangent, 0, n); });
    if (isa<FloatType>(splat.getInput().getType()))
      scalarCotangents.emplace_back(splat.getInput(), sum);
    return;
  }
  if (auto read = dyn_cast<pos::ElementsOp>(op)) {
    if (r.point.wantsGradient(cast<BlockArgument>(read.getParam())))
      forEach(buffer.extent, [&](Value n) {
        addToParam(read.getParam(), n, r.load(buffer.cotangent, 0, n));
      });
    return;
  }
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return pullContract(contract);
  if (auto atHeads = dyn_cast<pos::ForHeadsOp>(op))
    return pullForHeads(atHeads);
  return pullElementwise(op, scalars);
}

void VectorPayload::pullContract(pos::ContractOp op) {
  const Buffer &vector = of(op.getVector()), &result = of(op.getResult());
  Index first = getFirstColumn(op);
  bool isTrained = r.point.wantsGradient(cast<BlockArgument>(op.getMatrix()));
  forEach(result.extent, [&](Value row) {
    Value ct = r.load(result.cotangent, 0, row);
    // A score that is infinite or NaN adds nothing where nobody asks.
    Value asked = r.k.compareF(arith::CmpFPredicate::UNE, ct, r.constant(0.0));
    r.k.when(asked, [&] {
      forEach(vector.extent, [&](Value n) {
        Value column = r.k.value(r.k.add(first, n));
        Value weight = readElement(op.getMatrix(), {row, column});
        r.addTo(vector.cotangent, 0, n, r.mul(weight, ct));
        if (isTrained)
          addToParam(op.getMatrix(), {row, column},
                     r.mul(ct, r.load(vector.value, 0, n)));
      });
    });
  });
}

void VectorPayload::pullForHeads(pos::ForHeadsOp op) {
  forEach(of(op.getResult()).extent, [&](Value head) {
    SmallVector<Value> arguments = enterHead(op, head);
    Value ct = r.load(of(op.getResult()).cotangent, 0, head);
    SmallVector<Value> pulled =
        callPullback(r.k, op.getBody().front(), arguments, {ct}, r.point);
    for (auto [input, value] : llvm::zip_equal(op.getInputs(), pulled))
      if (value)
        r.addTo(of(input).cotangent, 0, head, value);
  });
  leaveHeads();
}

void VectorPayload::pullElementwise(Operation &op, PayloadEmitter &scalars) {
  Value vector = op.getResult(0);
  if (!isFloatVector(vector))
    return;
  auto rule = dyn_cast<DerivativeRuleInterface>(op);
  if (!rule)
    return r.k.check(op.emitOpError("has no derivative rule"));
  const Buffer &buffer = of(vector);
  forEach(buffer.extent, [&](Value n) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(getElement(scalars, operand, n));
    SmallVector<Value> pulled =
        rule.pullBack(r.k.builder, operands, r.load(buffer.value, 0, n),
                      r.load(buffer.cotangent, 0, n));
    for (auto [operand, value] : llvm::zip_equal(op.getOperands(), pulled))
      if (value && isFloatVector(operand))
        r.addTo(of(operand).cotangent, 0, n, value);
  });
}
