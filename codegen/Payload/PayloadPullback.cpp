//===- PayloadPullback.cpp - Pullbacks of payloads ------------------------===//
//
// Reverse mode on one block: forward values are emitted again, then the
// derivative rule of each op runs in reverse order. Only values behind which
// an argument or a wanted gradient stands are visited.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/EmittableOps.h"
#include "codegen/Payload/Payload.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

#include "codegen/Payload/EmittableOpInterface.cpp.inc"

PayloadPullback::PayloadPullback(PayloadEmitter &forward, Block &payload,
                                 ValueRange cotangents)
    : forward(forward), builder(forward.builder), point(forward.point),
      payload(payload) {
  for (Value ct : cotangents)
    seeds.push_back(ct ? forward.toLanes(ct) : ct);
}

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

bool PayloadPullback::isActive(Value value) {
  if (!isa<FloatType>(value.getType()))
    return false;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getOwner() == &payload;
  auto [entry, isNew] = active.try_emplace(value, false);
  if (!isNew)
    return entry->second;
  bool result = isActiveOp(*value.getDefiningOp());
  return active[value] = result;
}

bool PayloadPullback::isActiveOp(Operation &op) {
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return point.wantsGradient(hoist);
  if (auto emittable = dyn_cast<EmittableOpInterface>(op))
    return emittable.isActive(*this);
  return isAnyOperandActive(&op);
}

bool PayloadPullback::isAnyOperandActive(Operation *op) {
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isActive(operand); });
}

void PayloadPullback::add(Value value, Value cotangent) {
  if (!cotangent || !isActive(value))
    return;
  Value &slot = cotangents[value];
  slot = slot ? arith::AddFOp::create(builder, value.getLoc(), slot, cotangent)
                    .getResult()
              : cotangent;
}

//===----------------------------------------------------------------------===//
// Ops in reverse order
//===----------------------------------------------------------------------===//

LogicalResult PayloadPullback::pullBlock(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    for (Value result : op.getResults()) {
      auto found = cotangents.find(result);
      if (found != cotangents.end() && failed(pullOp(op, found->second)))
        return failure();
    }
  }
  return success();
}

FailureOr<PayloadPullback::Cotangents>
PayloadPullback::collect(function_ref<LogicalResult()> body) {
  Cotangents before = std::move(cotangents);
  cotangents.clear();
  LogicalResult result = body();
  std::swap(cotangents, before);
  if (failed(result))
    return failure();
  return before;
}

LogicalResult PayloadPullback::pullOp(Operation &op, Value ct) {
  if (auto emittable = dyn_cast<EmittableOpInterface>(op))
    return emittable.pullBack(*this, ct);
  return pullElementwise(op, ct);
}

LogicalResult PayloadPullback::pullElementwise(Operation &op, Value ct) {
  // A rule is one of a single result.
  auto rule = dyn_cast<DerivativeRuleInterface>(op);
  if (!rule || op.getNumResults() != 1)
    return op.emitOpError("has no derivative rule");
  SmallVector<Value> operands;
  Value result = forward.get(op.getResult(0));
  bool lanes = isa<VectorType>(ct.getType());
  for (Value operand : op.getOperands()) {
    Value value = forward.get(operand);
    operands.push_back(lanes ? forward.toLanes(value) : value);
  }
  if (lanes)
    result = forward.toLanes(result);
  SmallVector<Value> pulled = rule.pullBack(builder, operands, result, ct);
  for (auto [operand, value] : llvm::zip_equal(op.getOperands(), pulled))
    add(operand, value);
  return success();
}

/// A gradient is linear in the seeds, so it is exactly 0 where they are; a
/// product with a forward value that is infinite or NaN there would not be.
/// What was not multiplied needs no guard.
Value PayloadPullback::guarded(Value ct) {
  Value plain = ct;
  while (auto neg = plain.getDefiningOp<arith::NegFOp>())
    plain = neg.getOperand();
  if (llvm::is_contained(seeds, plain))
    return ct;
  Location loc = ct.getLoc();
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(ct.getType()));
  return arith::SelectOp::create(builder, loc, anySeed, ct, zero);
}

//===----------------------------------------------------------------------===//
// The whole payload
//===----------------------------------------------------------------------===//

void PayloadPullback::addSeeds(Value seed) {
  Location loc = seed.getLoc();
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(seed.getType()));
  Value nonzero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE,
                                        seed, zero);
  anySeed =
      anySeed ? arith::OrIOp::create(builder, loc, anySeed, nonzero).getResult()
              : nonzero;
}

LogicalResult PayloadPullback::finish() {
  for (Value seed : seeds)
    if (seed)
      addSeeds(seed);
  if (failed(pullBlock(payload)))
    return failure();
  // What a term of a running sum uses from around the sum.
  if (auto sum = dyn_cast<pos::RunningSumOp>(payload.getParentOp());
      sum && failed(pullBlock(*sum->getBlock())))
    return failure();
  for (auto [value, ct] : cotangents)
    if (auto hoist = value.getDefiningOp<pos::HoistOp>())
      point.addToHoisted(builder, hoist, guarded(ct));
  return success();
}

FailureOr<SmallVector<Value>> PayloadPullback::run() {
  for (auto [value, seed] :
       llvm::zip_equal(payload.getTerminator()->getOperands(), seeds))
    add(value, seed);
  if (failed(finish()))
    return failure();
  SmallVector<Value> results;
  for (Value argument : payload.getArguments()) {
    Value ct = cotangents.lookup(argument);
    results.push_back(ct ? guarded(ct) : Value());
  }
  return results;
}

LogicalResult
PayloadPullback::runFrom(ArrayRef<std::pair<Value, Value>> scalarCotangents) {
  for (auto [value, ct] : scalarCotangents) {
    seeds.push_back(ct);
    add(value, ct);
  }
  return finish();
}

FailureOr<SmallVector<Value>>
codegen::emitPullback(OpBuilder &builder, Block &block, ValueRange arguments,
                      ValueRange cotangents, PayloadPoint &point) {
  PayloadEmitter forward(builder, point);
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    forward.bind(argument, value);
  if (failed(forward.emitAround(block)) || failed(forward.emitBlock(block)))
    return failure();
  return PayloadPullback(forward, block, cotangents).run();
}

LogicalResult
codegen::emitScalarPullback(PayloadEmitter &forward, Block &block,
                            ArrayRef<std::pair<Value, Value>> cotangents) {
  return PayloadPullback(forward, block, {}).runFrom(cotangents);
}

LogicalResult codegen::pullbackHoist(OpBuilder &builder, pos::HoistOp hoist,
                                     Value cotangent, PayloadPoint &point) {
  return emitPullback(builder, hoist.getBody().front(), {}, {cotangent}, point);
}
