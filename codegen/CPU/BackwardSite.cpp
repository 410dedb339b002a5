//===- BackwardSite.cpp - Where the backward emits score payloads
//-----------===//

#include "codegen/CPU/BackwardSite.h"
#include "codegen/Payload.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

BackwardSite::BackwardSite(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const BackwardTask &task)
    : kernel(kernel), arguments(arguments), task(task) {}

namespace {
/// Lets the kernel's builder stand where a payload's builder stands.
class At {
public:
  At(KernelBuilder &kernel, OpBuilder &builder) : guard(kernel.builder) {
    kernel.builder.setInsertionPoint(builder.getInsertionBlock(),
                                     builder.getInsertionPoint());
  }

private:
  OpBuilder::InsertionGuard guard;
};
} // namespace

//===----------------------------------------------------------------------===//
// Moving
//===----------------------------------------------------------------------===//

LogicalResult BackwardSite::enterHead(Index batch, Index kvHead, Index head) {
  batchIndex = batch;
  this->kvHead = kvHead;
  headIndex = head;
  headScalars.clear();
  batchValue = kernel.toI32(batch);
  for (const Hoisted &hoisted : task.plan.hoisted) {
    if (hoisted.form != HoistForm::HeadScalar)
      continue;
    FailureOr<Value> value = emitHoist(kernel.builder, hoisted.op, *this);
    if (failed(value))
      return failure();
    headScalars[hoisted.op] = *value;
  }
  return success();
}

void BackwardSite::enterChunk(Index chunk) { this->chunk = chunk; }

void BackwardSite::enterCell(Index firstQuery, Index firstKey) {
  this->firstQuery = firstQuery;
  this->firstKey = firstKey;
}

void BackwardSite::setPoint(int64_t row, int64_t vector) {
  this->row = row;
  this->vector = vector;
  hoistGradients.clear();
}

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

Value BackwardSite::index(OpBuilder &builder, pos::Side side) {
  At at(kernel, builder);
  if (side == pos::Side::key)
    return kernel.lanes(keyRow());
  assert(side == pos::Side::query && "a score has a query and a key");
  Index first = kernel.sub(arguments.getSize(task.key, 2),
                           arguments.getSize(task.query, 2));
  return kernel.toI32(kernel.add(queryRow(), first));
}

Value BackwardSite::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  bool isKey = side == pos::Side::key;
  BackwardTask::Number positions =
      isKey ? task.keyPositions : task.queryPositions;
  if (!positions)
    return index(builder, side);
  At at(kernel, builder);
  Index element = kernel.rem(batchIndex, arguments.getSize(*positions, 0));
  Index last =
      kernel.sub(arguments.getSize(isKey ? task.key : task.query, 2), 1);
  if (!isKey) {
    Index query = kernel.min(queryRow(), last);
    return kernel.load(
        kernel.i32, arguments.getAddress(*positions, {element, query, axis}));
  }
  Value base = arguments.getAddress(*positions, {element, 0, axis});
  Value rows =
      arith::MinSIOp::create(kernel.builder, kernel.loc, kernel.lanes(keyRow()),
                             kernel.broadcast(kernel.toI32(last)));
  Value stride =
      kernel.broadcast(kernel.toI32(arguments.getStride(*positions, 1)));
  Value offsets =
      arith::MulIOp::create(kernel.builder, kernel.loc, rows, stride);
  return kernel.gather(kernel.i32, base, offsets);
}

Value BackwardSite::offset(OpBuilder &builder, int64_t axis) {
  Value key = coord(builder, pos::Side::key, axis);
  Value query = coord(builder, pos::Side::query, axis);
  At at(kernel, builder);
  return arith::SubIOp::create(kernel.builder, kernel.loc, key,
                               kernel.broadcast(query));
}

Value BackwardSite::head(OpBuilder &builder) {
  At at(kernel, builder);
  return kernel.toI32(headIndex);
}

Value BackwardSite::batch(OpBuilder &) { return batchValue; }

Value BackwardSite::lane(OpBuilder &) {
  llvm_unreachable("a score payload has no lane");
}

Value BackwardSite::extent(OpBuilder &builder, pos::Extent extent) {
  At at(kernel, builder);
  switch (extent) {
  case pos::Extent::batch:
    return kernel.toI32(arguments.getSize(task.query, 0));
  case pos::Extent::heads:
    return kernel.toI32(arguments.getSize(task.query, 1));
  case pos::Extent::kv_heads:
    return kernel.toI32(arguments.getSize(task.key, 1));
  case pos::Extent::head_dim:
    return kernel.toI32(task.shape.headDim);
  case pos::Extent::value_dim:
    return kernel.toI32(task.shape.valueDim);
  case pos::Extent::model:
    return kernel.toI32(
        kernel.mul(arguments.getSize(task.query, 1), task.shape.headDim));
  case pos::Extent::query:
    return kernel.toI32(arguments.getSize(task.query, 2));
  case pos::Extent::key:
    return kernel.toI32(arguments.getSize(task.key, 2));
  }
  llvm_unreachable("every extent is listed");
}

Value BackwardSite::scale(OpBuilder &) {
  return kernel.constantF32(task.plan.scale);
}

FloatType BackwardSite::getComputeType() { return cast<FloatType>(kernel.f32); }

//===----------------------------------------------------------------------===//
// Hoisted values and parameters
//===----------------------------------------------------------------------===//

/// What an element of a buffer of hoisted values of type `type` is in memory.
static Type getStoredType(KernelBuilder &kernel, Type type) {
  return type.isInteger(1) ? kernel.builder.getIntegerType(8) : type;
}

/// An i8 as the condition that it stands for.
static Value fromStored(KernelBuilder &kernel, Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  if (!type.isInteger(8))
    return value;
  Value zero = kernel.constant(
      cast<TypedAttr>(kernel.builder.getZeroAttr(value.getType())));
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, value, zero);
}

Value BackwardSite::loadTable(const Hoisted &hoisted, unsigned operand) {
  auto op = hoisted.op;
  Type element = getStoredType(kernel, op.getType());
  auto lanes = VectorType::get(kernel.width(), element);
  Value base =
      arguments.getAddress(operand, {hoisted.perBatch ? batchIndex : Index(0),
                                     hoisted.perHead ? headIndex : Index(0)});
  Index lastQuery = kernel.sub(arguments.getSize(task.query, 2), 1);
  switch (hoisted.form) {
  case HoistForm::OffsetTable: {
    if (task.offsetRange) {
      Value first =
          kernel.load(kernel.i32, arguments.getPointer(*task.offsetRange));
      Value entries = arith::SubIOp::create(kernel.builder, kernel.loc,
                                            offset(kernel.builder, 0),
                                            kernel.broadcast(first));
      return kernel.gather(element, base, entries);
    }
    Index start = kernel.sub(kernel.add(firstKey, lastQuery), firstQuery);
    int64_t inCell = task.tablePadding() + vector * kernel.width() - row;
    return kernel.load(lanes, kernel.advance(base, {start, inCell}, element));
  }
  case HoistForm::QueryVector:
    return kernel.load(
        element,
        kernel.advance(base, {kernel.min(queryRow(), lastQuery)}, element));
  case HoistForm::KeyVector:
    return kernel.loadPart(
        lanes, kernel.advance(base, {keyRow()}, element),
        kernel.sub(arguments.getSize(task.key, 2), keyRow()));
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    break;
  }
  llvm_unreachable("not a table of a score payload");
}

Value BackwardSite::hoisted(OpBuilder &builder, pos::HoistOp hoist) {
  if (Value scalar = headScalars.lookup(hoist))
    return scalar;
  At at(kernel, builder);
  const Hoisted *hoisted = task.plan.find(hoist);
  assert(hoisted && "a hoisted value of a score payload is planned");
  unsigned number = hoisted - task.plan.hoisted.data();
  return fromStored(kernel, loadTable(*hoisted, *task.tables[number]));
}

/// An index of the batch may run over a tensor that divides it.
Value BackwardSite::wrap(unsigned operand, unsigned dim, Value index) {
  if (index != batchValue)
    return index;
  return kernel.toI32(kernel.rem(batchIndex, arguments.getSize(operand, dim)));
}

Value BackwardSite::read(OpBuilder &builder, BlockArgument param,
                         ValueRange indices) {
  At at(kernel, builder);
  unsigned operand = *task.params[param.getArgNumber()];
  Type element = task.operands.tensors[operand].getElementType();
  SmallVector<Index> uniform;
  Value gathered;
  for (auto [dim, given] : llvm::enumerate(indices)) {
    Value index = wrap(operand, dim, given);
    Index stride = arguments.getStride(operand, dim);
    if (!isa<VectorType>(index.getType())) {
      uniform.push_back(kernel.mul(kernel.fromI32(index), stride));
      continue;
    }
    Value term = arith::MulIOp::create(kernel.builder, kernel.loc, index,
                                       kernel.broadcast(kernel.toI32(stride)));
    gathered = gathered ? arith::AddIOp::create(kernel.builder, kernel.loc,
                                                gathered, term)
                              .getResult()
                        : term;
  }
  Value base = kernel.advance(arguments.getPointer(operand), uniform, element);
  return gathered ? kernel.gather(element, base, gathered)
                  : kernel.load(element, base);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

bool BackwardSite::wantsGradient(pos::HoistOp hoist) {
  const Hoisted *hoisted = task.plan.find(hoist);
  return hoisted && hoisted->wantsGradient;
}

bool BackwardSite::wantsGradient(BlockArgument param) {
  return task.plan.paramWantsGradient[param.getArgNumber()];
}

void BackwardSite::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                                Value cotangent) {
  At at(kernel, builder);
  for (HoistGradient &gradient : hoistGradients)
    if (gradient.hoist == hoist) {
      gradient.cotangent = kernel.addF(gradient.cotangent, cotangent);
      return;
    }
  hoistGradients.push_back({hoist, cotangent});
}

void BackwardSite::addToRead(OpBuilder &builder, BlockArgument param,
                             ValueRange indices, Value cotangent) {
  At at(kernel, builder);
  unsigned number = param.getArgNumber();
  unsigned operand = *task.params[number];
  Value sums = arguments.getAddress(*task.readGradients[number],
                                    {chunk, batchIndex, kvHead});
  Type f64 = kernel.builder.getF64Type();
  // The entry of a lane, or of all lanes, in row-major order.
  auto add = [&](function_ref<Value(Value)> inLane, Value addend) {
    Index entry = 0;
    for (auto [dim, index] : llvm::enumerate(indices))
      entry = kernel.add(kernel.mul(entry, arguments.getSize(operand, dim)),
                         kernel.fromI32(inLane(wrap(operand, dim, index))));
    Value address = kernel.advance(sums, {entry}, f64);
    Value wide = arith::ExtFOp::create(kernel.builder, kernel.loc, f64, addend);
    kernel.store(arith::AddFOp::create(kernel.builder, kernel.loc,
                                       kernel.load(f64, address), wide),
                 address);
  };
  if (llvm::none_of(indices.getTypes(), llvm::IsaPred<VectorType>)) {
    add([](Value index) { return index; }, isa<VectorType>(cotangent.getType())
                                               ? kernel.sumLanes(cotangent)
                                               : cotangent);
    return;
  }
  Value lanes = kernel.broadcast(cotangent);
  kernel.loop(0, kernel.width(), 1, [&](Value lane) {
    auto extract = [&](Value vector) -> Value {
      if (!isa<VectorType>(vector.getType()))
        return vector;
      return vector::ExtractOp::create(kernel.builder, kernel.loc, vector,
                                       OpFoldResult(lane));
    };
    add(extract, extract(lanes));
  });
}
