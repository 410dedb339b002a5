//===- PayloadPullback.cpp - Pullbacks of payloads ------------------------===//
//
// Reverse mode on one block: forward values are emitted again, then the
// derivative rule of each op runs in reverse order. Only values behind which
// an argument or a wanted gradient stands are visited.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/Payload.h"
#include "codegen/Payload/PayloadEmitter.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
class Pullback {
public:
  Pullback(PayloadEmitter &forward, Block &payload, ValueRange cotangents)
      : forward(forward), builder(forward.builder), point(forward.point),
        payload(payload) {
    for (Value ct : cotangents)
      seeds.push_back(ct && point.getLanes() > 1 ? forward.toLanes(ct) : ct);
  }

  FailureOr<SmallVector<Value>> run();
  /// Starts at values of the payload instead of what it yields.
  LogicalResult runFrom(ArrayRef<std::pair<Value, Value>> cotangents);

private:
  using Cotangents = llvm::MapVector<Value, Value>;

  bool isActive(Value value);
  bool isActiveOp(Operation &op);
  void add(Value value, Value cotangent);
  LogicalResult finish();
  LogicalResult pullBlock(Block &block);
  LogicalResult pullOp(Operation &op, Value ct);
  LogicalResult pullRead(pos::ReadOp read, Value ct);
  LogicalResult pullScan(pos::ScanOp scan, Value ct);
  LogicalResult pullSum(pos::SumOp sum, Value ct);
  LogicalResult pullTerms(Operation *sum, Value count, Value ct);
  LogicalResult pullTerm(Operation *sum, Value k, Value ct);
  Value guarded(Value ct);
  void addSeeds(Value seed);

  PayloadEmitter &forward;
  OpBuilder &builder;
  SiteContext &point;
  Block &payload;
  SmallVector<Value> seeds;
  Value anySeed; ///< lanes in which some seed is not zero
  Cotangents cotangents;
  DenseMap<Value, bool> active;
};
} // namespace

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

bool Pullback::isActive(Value value) {
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

bool Pullback::isActiveOp(Operation &op) {
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return point.wantsGradient(hoist);
  if (auto read = dyn_cast<pos::ReadOp>(op))
    return point.wantsGradient(cast<BlockArgument>(read.getTensor()));
  if (isa<pos::QueryDotOp>(op)) // the query row has a gradient
    return true;
  if (auto sum = dyn_cast<pos::HingeSumOp>(op))
    return point.wantsUnits(sum) || isActive(sum.getValue());
  if (isa<pos::SumOp, pos::RunningSumOp>(op))
    return isActive(op.getRegion(0).front().getTerminator()->getOperand(0));
  return llvm::any_of(op.getOperands(),
                      [&](Value operand) { return isActive(operand); });
}

void Pullback::add(Value value, Value cotangent) {
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

LogicalResult Pullback::pullBlock(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    for (Value result : op.getResults()) {
      auto found = cotangents.find(result);
      if (found != cotangents.end() && failed(pullOp(op, found->second)))
        return failure();
    }
  }
  return success();
}

LogicalResult Pullback::pullOp(Operation &op, Value ct) {
  if (auto read = dyn_cast<pos::ReadOp>(op))
    return pullRead(read, ct);
  if (auto sum = dyn_cast<pos::SumOp>(op)) {
    if (point.addToSum(builder, sum, guarded(ct)))
      return success();
    return pullSum(sum, ct);
  }
  if (auto sum = dyn_cast<pos::RunningSumOp>(op)) {
    Value count = forward.getCount(sum);
    return count ? pullTerms(sum, count, ct) : failure();
  }
  if (auto scan = dyn_cast<pos::ScanOp>(op))
    return pullScan(scan, ct);
  if (auto dot = dyn_cast<pos::QueryDotOp>(op)) {
    point.addToQueryDot(builder, dot, forward.get(dot.getIndex()), guarded(ct));
    return success();
  }
  if (auto sum = dyn_cast<pos::HingeSumOp>(op)) {
    Value pulled = point.pullHingeSum(builder, sum, guarded(ct));
    if (!pulled)
      return failure();
    add(sum.getValue(), pulled);
    return success();
  }
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

LogicalResult Pullback::pullRead(pos::ReadOp read, Value ct) {
  SmallVector<Value> indices;
  for (Value index : read.getIndices())
    indices.push_back(forward.get(index));
  point.addToRead(builder, cast<BlockArgument>(read.getTensor()), indices,
                  guarded(ct));
  return success();
}

/// The cotangent of a scan's value comes from other keys as well, so it is not
/// 0 where the seeds of this key are: its lanes count as seeded from here on.
LogicalResult Pullback::pullScan(pos::ScanOp scan, Value ct) {
  if (isActive(scan.getLimit()))
    return scan.emitOpError("limit must not be trained or vary with the score");
  Value pulled =
      point.pullScan(builder, scan, forward.get(scan.getLimit()), guarded(ct));
  if (!pulled)
    return failure();
  addSeeds(pulled);
  add(scan.getValue(), pulled);
  return success();
}

/// A gradient is linear in the seeds, so it is exactly 0 where they are; a
/// product with a forward value that is infinite or NaN there would not be.
/// What was not multiplied needs no guard.
Value Pullback::guarded(Value ct) {
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
// Sums
//===----------------------------------------------------------------------===//

/// Pulls `ct` back through the term of number `k`, into `cotangents`.
LogicalResult Pullback::pullTerm(Operation *sum, Value k, Value ct) {
  Block &body = sum->getRegion(0).front();
  forward.bind(body.getArgument(0), k);
  if (failed(forward.emitBlock(body)))
    return failure();
  add(body.getTerminator()->getOperand(0), ct);
  return pullBlock(body);
}

LogicalResult Pullback::pullSum(pos::SumOp sum, Value ct) {
  Location loc = sum.getLoc();
  Region &region = sum.getBody();
  Cotangents outside = std::move(cotangents);
  auto isOutside = [&](Value value) {
    return !region.isAncestor(value.getParentRegion());
  };

  if (auto count = getUnrolledCount(sum)) {
    for (int64_t k = 0; k < *count; ++k) {
      cotangents.clear();
      if (failed(pullTerm(sum, forward.constantInt(loc, k), ct)))
        return failure();
      Cotangents term = std::move(cotangents);
      cotangents = std::move(outside);
      for (auto [value, pulled] : term)
        if (isOutside(value))
          add(value, pulled);
      outside = std::move(cotangents);
    }
    cotangents = std::move(outside);
    return success();
  }
  cotangents = std::move(outside);
  return pullTerms(sum, forward.get(sum.getCount()), ct);
}

LogicalResult Pullback::pullTerms(Operation *sum, Value count, Value ct) {
  Location loc = sum->getLoc();
  Region &region = sum->getRegion(0);
  Cotangents outside = std::move(cotangents);
  auto isOutside = [&](Value value) {
    return !region.isAncestor(value.getParentRegion());
  };
  // Values from outside that the terms use: their cotangents run along.
  llvm::SetVector<Value> captured;
  region.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (isOutside(operand) && isActive(operand))
        captured.insert(operand);
  });
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(ct.getType()));
  SmallVector<Value> init(captured.size(), zero);
  auto loop = scf::ForOp::create(builder, loc, forward.constantInt(loc, 0),
                                 count, forward.constantInt(loc, 1), init);
  {
    OpBuilder::InsertionGuard guard(builder);
    // Without iteration arguments the loop comes with its terminator.
    if (!captured.empty())
      builder.setInsertionPointToEnd(loop.getBody());
    else
      builder.setInsertionPoint(loop.getBody()->getTerminator());
    cotangents.clear();
    if (failed(pullTerm(sum, loop.getInductionVar(), ct)))
      return failure();
    SmallVector<Value> next;
    for (auto [value, sofar] :
         llvm::zip_equal(captured, loop.getRegionIterArgs())) {
      Value pulled = cotangents.lookup(value);
      next.push_back(
          pulled
              ? arith::AddFOp::create(builder, loc, sofar, pulled).getResult()
              : sofar);
    }
    if (!captured.empty())
      scf::YieldOp::create(builder, loc, next);
  }
  cotangents = std::move(outside);
  for (auto [value, total] : llvm::zip_equal(captured, loop.getResults()))
    add(value, total);
  return success();
}

//===----------------------------------------------------------------------===//
// The whole payload
//===----------------------------------------------------------------------===//

/// Lanes in which `seed` is not 0 have gradients.
void Pullback::addSeeds(Value seed) {
  Location loc = seed.getLoc();
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(seed.getType()));
  Value nonzero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE,
                                        seed, zero);
  anySeed =
      anySeed ? arith::OrIOp::create(builder, loc, anySeed, nonzero).getResult()
              : nonzero;
}

LogicalResult Pullback::finish() {
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

FailureOr<SmallVector<Value>> Pullback::run() {
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
Pullback::runFrom(ArrayRef<std::pair<Value, Value>> scalarCotangents) {
  for (auto [value, ct] : scalarCotangents) {
    seeds.push_back(ct);
    add(value, ct);
  }
  return finish();
}

FailureOr<SmallVector<Value>>
codegen::emitPullback(OpBuilder &builder, Block &block, ValueRange arguments,
                      ValueRange cotangents, SiteContext &point) {
  PayloadEmitter forward(builder, point);
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    forward.bind(argument, value);
  if (failed(forward.emitAround(block)) || failed(forward.emitBlock(block)))
    return failure();
  return Pullback(forward, block, cotangents).run();
}

LogicalResult
codegen::emitScalarPullback(PayloadEmitter &forward, Block &block,
                            ArrayRef<std::pair<Value, Value>> cotangents) {
  return Pullback(forward, block, {}).runFrom(cotangents);
}

LogicalResult codegen::pullbackHoist(OpBuilder &builder, pos::HoistOp hoist,
                                     Value cotangent, SiteContext &point) {
  return emitPullback(builder, hoist.getBody().front(), {}, {cotangent}, point);
}
