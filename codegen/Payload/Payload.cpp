//===- Payload.cpp - Forward emission of payloads -------------------------===//
//
// Clones the ops of a payload at a site context. Values stay scalars until
// they meet a vector of lanes. A sum of a few terms is unrolled, any other is
// a loop.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/Payload.h"
#include "codegen/Payload/IntegerArithmetic.h"
#include "codegen/Payload/PayloadEmitter.h"
#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

/// Terms of a sum that are written out instead of looped over.
static constexpr int64_t maxUnrolledTerms = 8;

std::optional<int64_t> codegen::getUnrolledCount(pos::SumOp sum) {
  APInt count;
  if (!matchPattern(sum.getCount(), m_ConstantInt(&count)) ||
      count.sgt(maxUnrolledTerms))
    return std::nullopt;
  return std::max<int64_t>(count.getSExtValue(), 0);
}

Type PayloadEmitter::convert(Type type) {
  return type.isF32() ? point.getComputeType() : type;
}

Type PayloadEmitter::toLanes(Type type) const {
  if (isa<VectorType>(type))
    return type;
  return VectorType::get({point.getLanes()}, type);
}

Value PayloadEmitter::toLanes(Value value) {
  if (isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(builder, value.getLoc(),
                                     toLanes(value.getType()), value);
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
  if (auto read = dyn_cast<pos::ReadOp>(op)) {
    auto param = dyn_cast<BlockArgument>(read.getTensor());
    if (!param)
      return op.emitOpError("must read a parameter of the attention");
    SmallVector<Value> indices;
    for (Value index : read.getIndices()) {
      indices.push_back(get(index));
      if (!indices.back())
        return failure();
    }
    point.noteRead(read, indices);
    Value value = point.read(builder, param, indices);
    if (!value)
      return failure();
    values.map(read.getResult(), value);
    return success();
  }
  if (auto sum = dyn_cast<pos::SumOp>(op))
    return emitSum(sum);
  if (isa<pos::QueryDotOp, pos::ScanOp, pos::HingeSumOp>(op))
    return emitContextual(op);
  if (auto sum = dyn_cast<pos::RunningSumOp>(op))
    return emitRunningSum(sum);
  if (OpTrait::hasElementwiseMappableTraits(&op) && op.getNumRegions() == 0)
    return emitElementwise(op);
  return op.emitOpError("has no kernel on this target");
}

LogicalResult PayloadEmitter::emitContextual(Operation &op) {
  Value result;
  if (auto dot = dyn_cast<pos::QueryDotOp>(op)) {
    Value addend = dot.getAddend();
    if (!isa<BlockArgument>(dot.getTable()) ||
        (addend && !isa<BlockArgument>(addend)))
      return op.emitOpError("must read a parameter of the attention");
    if (Value index = get(dot.getIndex()))
      result = point.queryDot(builder, dot, index);
  } else if (auto sum = dyn_cast<pos::HingeSumOp>(op)) {
    result = point.hingeSum(builder, sum);
  } else {
    auto scan = cast<pos::ScanOp>(op);
    Value value = get(scan.getValue()), limit = get(scan.getLimit());
    if (value && limit)
      result = point.scan(builder, scan, value, limit);
  }
  if (!result)
    return failure();
  values.map(op.getResult(0), result);
  return success();
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
// Sums
//===----------------------------------------------------------------------===//

/// Adds to `varied` the values of a body that are vectors, given the values
/// from outside. Only reads and elementwise ops are left in a prepared body.
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
    bool isRow = isa<pos::QueryDotOp>(op) && emitter.point.getLanes() > 1;
    if (isRow || llvm::any_of(op.getOperands(), isVector))
      for (Value result : op.getResults())
        varied.insert(result);
  }
}

LogicalResult PayloadEmitter::emitSum(pos::SumOp sum) {
  if (Value known = point.sum(builder, sum)) {
    bind(sum.getResult(), known);
    return success();
  }
  Location loc = sum.getLoc();
  Block &body = sum.getBody().front();
  Value term = body.getTerminator()->getOperand(0);
  if (failed(prepare(body)))
    return failure();
  if (auto count = getUnrolledCount(sum)) {
    Value total;
    for (int64_t k = 0; k < *count; ++k) {
      bind(body.getArgument(0), constantInt(loc, k));
      if (failed(emitBlock(body)))
        return failure();
      Value value = get(term);
      if (total && isa<VectorType>(value.getType()))
        total = toLanes(total);
      total = total ? arith::AddFOp::create(builder, loc, total, value) : value;
    }
    bind(sum.getResult(), total ? total : constant(loc, 0.0));
    return success();
  }

  Value count = get(sum.getCount());
  if (!count)
    return failure();
  if (isa<VectorType>(count.getType()))
    return sum.emitOpError("count must not vary between keys");
  return emitTerms(sum, count);
}

Value PayloadEmitter::getCount(pos::RunningSumOp sum) {
  Value index = point.index(builder, sum.getSide());
  if (!index || isa<VectorType>(index.getType())) {
    sum.emitOpError("has no value at this place");
    return {};
  }
  Value count = arith::AddIOp::create(builder, sum.getLoc(), index,
                                      constantInt(sum.getLoc(), 1));
  return arith::MaxSIOp::create(builder, sum.getLoc(), count,
                                constantInt(sum.getLoc(), 0));
}

/// Term after term, as the definition says: kernels keep a running sum outside
/// of their tiles.
LogicalResult PayloadEmitter::emitRunningSum(pos::RunningSumOp sum) {
  if (failed(prepare(sum.getBody().front())))
    return failure();
  Value count = getCount(sum);
  return count ? emitTerms(sum, count) : failure();
}

LogicalResult PayloadEmitter::emitTerms(Operation *sum, Value count) {
  Location loc = sum->getLoc();
  Block &body = sum->getRegion(0).front();
  Value term = body.getTerminator()->getOperand(0);
  DenseSet<Value> varied;
  findVectors(*this, body, *body.getParent(), varied);
  bool vector = varied.contains(term);
  if (!vector && term.getParentBlock() != &body)
    vector = isa<VectorType>(get(term).getType());
  Value zero = constant(loc, 0.0);
  auto loop = scf::ForOp::create(builder, loc, constantInt(loc, 0), count,
                                 constantInt(loc, 1),
                                 ValueRange{vector ? toLanes(zero) : zero});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    bind(body.getArgument(0), loop.getInductionVar());
    if (failed(emitBlock(body)))
      return failure();
    Value next = arith::AddFOp::create(builder, loc, loop.getRegionIterArg(0),
                                       get(term));
    scf::YieldOp::create(builder, loc, next);
  }
  bind(sum->getResult(0), loop.getResult(0));
  return success();
}

//===----------------------------------------------------------------------===//
// Contextual places
//===----------------------------------------------------------------------===//

Value SiteContext::queryDot(OpBuilder &, pos::QueryDotOp op, Value) {
  op.emitOpError("has no kernel at this place");
  return {};
}
void SiteContext::addToQueryDot(OpBuilder &, pos::QueryDotOp, Value, Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}
Value SiteContext::scan(OpBuilder &, pos::ScanOp op, Value, Value) {
  op.emitOpError("has no kernel at this place");
  return {};
}
Value SiteContext::pullScan(OpBuilder &, pos::ScanOp, Value, Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}

Value SiteContext::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  op.emitOpError("has no kernel at this place");
  return {};
}
Value SiteContext::pullHingeSum(OpBuilder &, pos::HingeSumOp, Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> codegen::emitPayload(OpBuilder &builder,
                                                   Block &block,
                                                   ValueRange arguments,
                                                   SiteContext &point) {
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
                                    SiteContext &point) {
  FailureOr<SmallVector<Value>> values =
      emitPayload(builder, hoist.getBody().front(), {}, point);
  if (failed(values))
    return failure();
  return values->front();
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

static bool dependsOn(Value value, Value source) {
  if (value == source)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != source.getParentBlock())
    return false;
  bool depends = llvm::any_of(op->getOperands(), [&](Value operand) {
    return dependsOn(operand, source);
  });
  // The body of a sum may use the source as well.
  op->walk([&](Operation *nested) {
    if (nested != op)
      depends |= llvm::any_of(nested->getOperands(), [&](Value operand) {
        return operand == source ||
               (operand.getDefiningOp() &&
                operand.getParentBlock() == source.getParentBlock() &&
                dependsOn(operand, source));
      });
  });
  return depends;
}

bool codegen::isAdditive(Block &block) {
  if (block.getNumArguments() != 1 ||
      block.getTerminator()->getNumOperands() != 1)
    return false;
  Value source = block.getArgument(0);
  Value value = block.getTerminator()->getOperand(0);
  while (value != source) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<arith::AddFOp, arith::SubFOp>(op))
      return false;
    bool left = dependsOn(op->getOperand(0), source);
    bool right = dependsOn(op->getOperand(1), source);
    if (left == right || (right && isa<arith::SubFOp>(op)))
      return false;
    value = op->getOperand(left ? 0 : 1);
  }
  return true;
}
