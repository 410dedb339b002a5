//===- SumModels.cpp - Sums in payloads, forwards and backwards ----------===//
//
// A sum of a few terms is unrolled, any other is a loop; of sums within sums
// all terms count that would be written out. A term is pulled back
// where it is emitted again; cotangents of values from outside of the sum run
// along.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/EmittableOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Terms of a sum that are written out instead of looped over. A pullback
/// writes them for each point of a tile, so that more would take minutes to
/// compile.
static constexpr int64_t maxUnrolledTerms = 8;

static std::optional<int64_t> getUnrolledCount(pos::SumOp sum);

/// Terms of all sums in a body that stand in its text, but one at least: the
/// body's own.
static int64_t countWrittenTerms(Block &body) {
  int64_t terms = 0;
  for (Operation &op : body) {
    int64_t count = 1;
    if (auto sum = dyn_cast<pos::SumOp>(op))
      count = getUnrolledCount(sum).value_or(1);
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        terms += count * countWrittenTerms(inner);
  }
  return std::max<int64_t>(terms, 1);
}

/// The constant count of a sum if it is small enough to be unrolled.
static std::optional<int64_t> getUnrolledCount(pos::SumOp sum) {
  APInt count;
  if (!matchPattern(sum.getCount(), m_ConstantInt(&count)) ||
      count.sgt(maxUnrolledTerms / countWrittenTerms(sum.getBody().front())))
    return std::nullopt;
  return std::max<int64_t>(count.getSExtValue(), 0);
}

/// The number of terms of a running sum at this point (i32), or null.
static Value getCount(PayloadEmitter &emitter, pos::RunningSumOp sum) {
  Location loc = sum.getLoc();
  Value index = emitter.point.index(emitter.builder, sum.getSide());
  if (!index || isa<VectorType>(index.getType())) {
    sum.emitOpError("has no value at this place");
    return {};
  }
  Value count = arith::AddIOp::create(emitter.builder, loc, index,
                                      emitter.constantInt(loc, 1));
  return arith::MaxSIOp::create(emitter.builder, loc, count,
                                emitter.constantInt(loc, 0));
}

static Value getTerm(Operation *sum) {
  return sum->getRegion(0).front().getTerminator()->getOperand(0);
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Adds to `varied` the values of a body that are vectors, given the values
/// from outside. Context ops of a prepared body are emitted already.
/// `outermost` is the region of the outermost sum.
static void findVectors(PayloadEmitter &emitter, Block &body, Region &outermost,
                        DenseSet<Value> &varied) {
  auto isVector = [&](Value value) {
    if (varied.contains(value))
      return true;
    Operation *op = value.getDefiningOp();
    bool outside = !outermost.isAncestor(value.getParentRegion()) ||
                   isa_and_nonnull<pos::ContextOpInterface>(op);
    if (!outside || isa<RankedTensorType>(value.getType()))
      return false;
    return isa<VectorType>(emitter.get(value).getType());
  };
  for (Operation &op : body) {
    for (Region &region : op.getRegions()) {
      findVectors(emitter, region.front(), outermost, varied);
      if (isVector(region.front().getTerminator()->getOperand(0)))
        varied.insert(op.getResult(0));
    }
    auto payloadOp = dyn_cast<pos::PayloadOpInterface>(op);
    bool isOfRow =
        payloadOp && payloadOp.isOfOneHead() && emitter.point.getLanes() > 1;
    if (isOfRow || llvm::any_of(op.getOperands(), isVector))
      for (Value result : op.getResults())
        varied.insert(result);
  }
}

/// A loop over the terms 0 .. count - 1 of a body that is prepared.
static LogicalResult emitTerms(PayloadEmitter &emitter, Operation *sum,
                               Value count) {
  OpBuilder &builder = emitter.builder;
  Location loc = sum->getLoc();
  Block &body = sum->getRegion(0).front();
  Value term = getTerm(sum);
  DenseSet<Value> varied;
  findVectors(emitter, body, *body.getParent(), varied);
  bool vector = varied.contains(term);
  if (!vector && term.getParentBlock() != &body)
    vector = isa<VectorType>(emitter.get(term).getType());
  Value zero = emitter.constant(loc, 0.0);
  auto loop =
      scf::ForOp::create(builder, loc, emitter.constantInt(loc, 0), count,
                         emitter.constantInt(loc, 1),
                         ValueRange{vector ? emitter.toLanes(zero) : zero});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    emitter.bind(body.getArgument(0), loop.getInductionVar());
    if (failed(emitter.emitBlock(body)))
      return failure();
    Value next = arith::AddFOp::create(builder, loc, loop.getRegionIterArg(0),
                                       emitter.get(term));
    scf::YieldOp::create(builder, loc, next);
  }
  emitter.bind(sum->getResult(0), loop.getResult(0));
  return success();
}

static LogicalResult emitUnrolled(PayloadEmitter &emitter, pos::SumOp sum,
                                  int64_t count) {
  Location loc = sum.getLoc();
  Block &body = sum.getBody().front();
  Value total;
  for (int64_t k = 0; k < count; ++k) {
    emitter.bind(body.getArgument(0), emitter.constantInt(loc, k));
    if (failed(emitter.emitBlock(body)))
      return failure();
    Value value = emitter.get(getTerm(sum));
    if (total && isa<VectorType>(value.getType()))
      total = emitter.toLanes(total);
    total = total ? arith::AddFOp::create(emitter.builder, loc, total, value)
                  : value;
  }
  emitter.bind(sum.getResult(), total ? total : emitter.constant(loc, 0.0));
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The cotangents that come of that of the term of number `k`.
static FailureOr<PayloadPullback::Cotangents>
pullTerm(PayloadPullback &pullback, Operation *sum, Value k, Value ct) {
  Block &body = sum->getRegion(0).front();
  return pullback.collect([&]() -> LogicalResult {
    pullback.forward.bind(body.getArgument(0), k);
    if (failed(pullback.forward.emitBlock(body)))
      return failure();
    pullback.add(getTerm(sum), ct);
    return pullback.pullBlock(body);
  });
}

static bool isOutside(Operation *sum, Value value) {
  return !sum->getRegion(0).isAncestor(value.getParentRegion());
}

static LogicalResult pullTerms(PayloadPullback &pullback, Operation *sum,
                               Value count, Value ct) {
  OpBuilder &builder = pullback.builder;
  PayloadEmitter &forward = pullback.forward;
  Location loc = sum->getLoc();
  // Values from outside that the terms use: their cotangents run along.
  llvm::SetVector<Value> captured;
  sum->getRegion(0).walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (isOutside(sum, operand) && pullback.isActive(operand))
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
    FailureOr<PayloadPullback::Cotangents> found =
        pullTerm(pullback, sum, loop.getInductionVar(), ct);
    if (failed(found))
      return failure();
    SmallVector<Value> next;
    for (auto [value, sofar] :
         llvm::zip_equal(captured, loop.getRegionIterArgs())) {
      Value pulled = found->lookup(value);
      next.push_back(
          pulled
              ? arith::AddFOp::create(builder, loc, sofar, pulled).getResult()
              : sofar);
    }
    if (!captured.empty())
      scf::YieldOp::create(builder, loc, next);
  }
  for (auto [value, total] : llvm::zip_equal(captured, loop.getResults()))
    pullback.add(value, total);
  return success();
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {
struct SumModel : EmittableOpInterface::ExternalModel<SumModel, pos::SumOp> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    auto sum = cast<pos::SumOp>(op);
    if (failed(emitter.prepare(sum.getBody().front())))
      return failure();
    if (auto count = getUnrolledCount(sum))
      return emitUnrolled(emitter, sum, *count);
    Value count = emitter.get(sum.getCount());
    if (!count)
      return failure();
    if (isa<VectorType>(count.getType()))
      return sum.emitOpError("count must not vary between keys");
    return emitTerms(emitter, sum, count);
  }
  bool isActive(Operation *op, PayloadPullback &pullback) const {
    return pullback.isActive(getTerm(op));
  }
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    auto sum = cast<pos::SumOp>(op);
    auto count = getUnrolledCount(sum);
    if (!count)
      return pullTerms(pullback, sum, pullback.forward.get(sum.getCount()), ct);
    for (int64_t k = 0; k < *count; ++k) {
      FailureOr<PayloadPullback::Cotangents> found = pullTerm(
          pullback, sum, pullback.forward.constantInt(sum.getLoc(), k), ct);
      if (failed(found))
        return failure();
      for (auto [value, pulled] : *found)
        if (isOutside(sum, value))
          pullback.add(value, pulled);
    }
    return success();
  }
};

/// Term after term, as the definition says: kernels keep a running sum outside
/// of their tiles.
struct RunningSumModel
    : EmittableOpInterface::ExternalModel<RunningSumModel, pos::RunningSumOp> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    auto sum = cast<pos::RunningSumOp>(op);
    if (failed(emitter.prepare(sum.getBody().front())))
      return failure();
    Value count = getCount(emitter, sum);
    return count ? emitTerms(emitter, sum, count) : failure();
  }
  bool isActive(Operation *op, PayloadPullback &pullback) const {
    return pullback.isActive(getTerm(op));
  }
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    Value count = getCount(pullback.forward, cast<pos::RunningSumOp>(op));
    return count ? pullTerms(pullback, op, count, ct) : failure();
  }
};
} // namespace

void codegen::registerSumModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, pos::PosDialect *) {
    pos::SumOp::attachInterface<SumModel>(*context);
    pos::RunningSumOp::attachInterface<RunningSumModel>(*context);
  });
}
