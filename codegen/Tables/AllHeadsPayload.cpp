//===- AllHeadsPayload.cpp - Forward emission of payloads of vectors ------===//

#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Payload/Payload.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static bool isVector(Value value) {
  return isa<RankedTensorType>(value.getType());
}

AllHeadsEmitter::AllHeadsEmitter(OpBuilder &builder, AllHeadsPoint &point,
                                 bool keepsUnits)
    : point(point), kernel(point.getKernel()), weights(point.getWeights()),
      builder(builder), scalars(builder, point.getScalarPoint()),
      keepsUnits(keepsUnits) {}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Values AllHeadsEmitter::multiplyGroup(const PackedMatrix &matrix,
                                      ValueRange operand, Index first,
                                      int64_t count) {
  assert(matrix.streamsResults && count == getGroup(matrix.rows));
  Value from = kernel.advance(point.getPacked(matrix.place),
                              {kernel.mul(first, matrix.columns)});
  Values results(count);
  for (auto [column, element] : llvm::enumerate(operand))
    for (int64_t row = 0; row < count; ++row) {
      Value weight = kernel.loadBroadcast(
          from, {static_cast<int64_t>(column) * count + row});
      Value &result = results[row];
      result = result ? kernel.fma(weight, element, result)
                      : kernel.mulF(weight, element);
    }
  return results;
}

Values AllHeadsEmitter::accumulate(const PackedMatrix &matrix, Index first,
                                   ValueRange elements, ValueRange sums) {
  assert(!matrix.streamsResults);
  Value from = kernel.advance(point.getPacked(matrix.place),
                              {kernel.mul(first, matrix.rows)});
  Values next(sums);
  for (auto [number, element] : llvm::enumerate(elements))
    for (int64_t row = 0; row < matrix.rows; ++row)
      next[row] = kernel.fma(
          kernel.loadBroadcast(
              from, {static_cast<int64_t>(number) * matrix.rows + row}),
          element, next[row]);
  return next;
}

Values AllHeadsEmitter::multiply(const PackedMatrix &matrix, ValueRange operand,
                                 Value owner) {
  int64_t width = kernel.width(), count = getGroup(matrix.rows);
  Value buffer = point.getBuffer(owner, matrix.rows);
  rolledLoop(matrix.rows, count, {}, [&](Index first, ValueRange) -> Values {
    storeElements(buffer, first, multiplyGroup(matrix, operand, first, count));
    return {};
  });
  Values results;
  for (int64_t row = 0; row < matrix.rows; ++row)
    results.push_back(kernel.loadVector(buffer, {row * width}));
  return results;
}

Values
AllHeadsEmitter::forGroups(int64_t extent, ValueRange initial,
                           function_ref<Values(Index, ValueRange)> body) {
  int64_t count = getGroup(extent);
  auto run = [&](Index first, ValueRange carried) {
    groups.emplace_back(first, count);
    Values next = body(first, carried);
    groups.pop_back();
    return next;
  };
  return rolledLoop(extent, count, initial, run);
}

Values
AllHeadsEmitter::rolledLoop(int64_t extent, int64_t step, ValueRange initial,
                            function_ref<Values(Index, ValueRange)> body) {
  Operation *loop = nullptr;
  Values results =
      kernel.loop(0, extent, step, initial, [&](Value iv, ValueRange carried) {
        loop = iv.getParentBlock()->getParentOp();
        return body(iv, carried);
      });
  MLIRContext *context = builder.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/BoolAttr::get(context, true), /*count=*/{},
      /*runtimeDisable=*/{}, /*full=*/{}, /*followupUnrolled=*/{},
      /*followupRemainder=*/{}, /*followupAll=*/{});
  loop->setAttr("llvm.loop_annotation",
                LLVM::LoopAnnotationAttr::get(
                    context, /*disableNonforced=*/{}, /*vectorize=*/{},
                    /*interleave=*/{}, unroll, /*unrollAndJam=*/{}, /*licm=*/{},
                    /*distribute=*/{}, /*pipeline=*/{}, /*peeled=*/{},
                    /*unswitch=*/{}, /*mustProgress=*/{}, /*isVectorized=*/{},
                    /*startLoc=*/{}, /*endLoc=*/{}, /*parallelAccesses=*/{}));
  return results;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Values>>
AllHeadsEmitter::getElements(ValueRange values, Index first, int64_t count) {
  SmallVector<Values> all;
  for (Value value : values) {
    FailureOr<Values> elements = getElements(value, first, count);
    if (failed(elements))
      return failure();
    all.push_back(*elements);
  }
  return all;
}

FailureOr<Values> AllHeadsEmitter::getElements(Value vector, Index first,
                                               int64_t count) {
  if (!isVector(vector)) {
    Value scalar = scalars.get(vector);
    if (!scalar)
      return failure();
    return Values(count, scalars.toLanes(scalar));
  }
  auto inRegisters = registers.find(vector);
  if (inRegisters != registers.end()) {
    assert(first.isConstant() && "registers have constant numbers");
    ArrayRef<Value> all = inRegisters->second;
    return Values(all.slice(first.getConstant(), count));
  }
  Group *group = nullptr;
  if (!groups.empty() && groups.back().count == count && !first.isConstant() &&
      !groups.back().first.isConstant() &&
      groups.back().first.getValue() == first.getValue())
    group = &groups.back();
  if (group) {
    auto known = group->known.find(vector);
    if (known != group->known.end())
      return known->second;
  }
  size_t depth = groups.size();
  FailureOr<Values> elements = compute(vector, first, count);
  if (succeeded(elements) && group)
    groups[depth - 1].known[vector] = *elements;
  return elements;
}

FailureOr<Values> AllHeadsEmitter::compute(Value vector, Index first,
                                           int64_t count) {
  if (Value buffer = buffers.lookup(vector)) {
    Values elements;
    for (int64_t number = 0; number < count; ++number)
      elements.push_back(
          kernel.loadVector(buffer, {kernel.mul(first, kernel.width()),
                                     number * kernel.width()}));
    return elements;
  }
  Operation *op = vector.getDefiningOp();
  assert(op && "the argument is in registers");
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return point.loadElements(hoist, first, count);
  if (auto param = dyn_cast<pos::ElementsOp>(op)) {
    Value from = point.getPacked(weights.getPlace(param));
    Values elements;
    for (int64_t number = 0; number < count; ++number)
      elements.push_back(kernel.loadBroadcast(from, {first, number}));
    return elements;
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return getElements(splat.getInput(), first, count);
  if (op->hasTrait<OpTrait::ConstantLike>()) {
    DenseElementsAttr constant;
    if (auto attr = dyn_cast<arith::ConstantOp>(op))
      constant = dyn_cast<DenseElementsAttr>(attr.getValue());
    if (constant && constant.isSplat() &&
        isa<FloatType>(constant.getElementType()))
      return Values(
          count,
          kernel.splatF32(constant.getSplatValue<APFloat>().convertToFloat()));
    op->emitOpError("is a vector of different constants, which has no kernel "
                    "on this target");
    return failure();
  }
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return computeContract(contract, first, count);
  if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumRegions() == 0)
    return computeElementwise(*op, first, count);
  op->emitOpError("of vectors has no kernel on this target");
  return failure();
}

FailureOr<Values>
AllHeadsEmitter::computeElementwise(Operation &op, Index first, int64_t count) {
  FailureOr<SmallVector<Values>> operands =
      getElements(op.getOperands(), first, count);
  if (failed(operands))
    return failure();
  Type element = getElementTypeOrSelf(op.getResult(0).getType());
  Values results;
  for (int64_t number = 0; number < count; ++number) {
    Operation *clone = op.cloneWithoutRegions();
    for (auto [place, values] : llvm::enumerate(*operands))
      clone->setOperand(place, values[number]);
    clone->getResult(0).setType(scalars.toLanes(scalars.convert(element)));
    builder.insert(clone);
    results.push_back(clone->getResult(0));
  }
  return results;
}

FailureOr<Values> AllHeadsEmitter::computeContract(pos::ContractOp op,
                                                   Index first, int64_t count) {
  const PackedMatrix &matrix = weights.getForward(op);
  if (!isStreamed(op.getVector())) {
    FailureOr<Values> operand = getAll(op.getVector());
    if (failed(operand))
      return failure();
    Values results = multiplyGroup(matrix, *operand, first, count);
    keep(op.getResult(), first, results);
    return results;
  }
  // Both axes are streamed: one element of the operand at a time, from memory.
  Values zeros(count, kernel.splatF32(0));
  LogicalResult result = success();
  Value from = kernel.advance(point.getPacked(matrix.place),
                              {kernel.mul(first, matrix.columns)});
  Values sums = kernel.loop(
      0, matrix.columns, 1, zeros, [&](Value column, ValueRange carried) {
        Values next(carried);
        FailureOr<Values> element = getElements(op.getVector(), column, 1);
        if (failed(element)) {
          result = failure();
          return next;
        }
        Value at = kernel.advance(from, {kernel.mul(column, count)});
        for (int64_t row = 0; row < count; ++row)
          next[row] = kernel.fma(kernel.loadBroadcast(at, {row}),
                                 element->front(), next[row]);
        return next;
      });
  if (failed(result))
    return failure();
  keep(op.getResult(), first, sums);
  return sums;
}

void AllHeadsEmitter::keep(Value vector, Index first, ValueRange elements) {
  if (!keepsUnits)
    return;
  kept.insert(vector);
  storeElements(point.getBuffer(vector, getVectorExtent(vector)), first,
                elements);
}

void AllHeadsEmitter::useKept() {
  for (Value vector : kept)
    buffers[vector] = point.getBuffer(vector, getVectorExtent(vector));
  keepsUnits = false;
}

void AllHeadsEmitter::storeElements(Value buffer, Index first,
                                    ValueRange elements) {
  Value to = kernel.advance(buffer, {kernel.mul(first, kernel.width())});
  for (auto [number, element] : llvm::enumerate(elements))
    kernel.storeVector(element, to,
                       {static_cast<int64_t>(number) * kernel.width()});
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Whether a streamed vector is needed as a whole: what contracts it streams
/// another axis.
static bool isNeededWhole(Value vector, const AllHeadsWeights &weights) {
  return llvm::any_of(vector.getUsers(), [&](Operation *user) {
    auto contract = dyn_cast<pos::ContractOp>(user);
    return contract && weights.isStreamed(contract.getResult());
  });
}

LogicalResult AllHeadsEmitter::emit(Block &block, ValueRange argument) {
  if (!argument.empty())
    registers[block.getArgument(0)] = Values(argument);
  for (Operation &op : block.without_terminator()) {
    LogicalResult result = op.getNumResults() == 1 && isVector(op.getResult(0))
                               ? emitVector(op)
                               : scalars.emitOp(op);
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult AllHeadsEmitter::emitVector(Operation &op) {
  Value result = op.getResult(0);
  if (auto forHeads = dyn_cast<pos::ForHeadsOp>(op))
    return emitForHeads(forHeads);
  // Scalars from outside of the payload: here, not in the first loop that needs
  // them.
  for (Value operand : op.getOperands())
    if (!isVector(operand) && !scalars.get(operand))
      return failure();
  // Loads stand where they are used.
  if (isa<pos::ElementsOp, tensor::SplatOp>(op) ||
      op.hasTrait<OpTrait::ConstantLike>())
    return success();
  if (!isStreamed(result)) {
    if (auto contract = dyn_cast<pos::ContractOp>(op))
      return emitContract(contract);
    FailureOr<Values> elements = compute(result, 0, getVectorExtent(result));
    if (succeeded(elements))
      registers[result] = *elements;
    return elements;
  }
  if (!isNeededWhole(result, weights))
    return success(); // on demand
  Value buffer = point.getBuffer(result, getVectorExtent(result));
  LogicalResult status = success();
  forGroups(getVectorExtent(result), {},
            [&](Index first, ValueRange) -> Values {
              FailureOr<Values> elements =
                  compute(result, first, getGroup(getVectorExtent(result)));
              if (failed(elements)) {
                status = failure();
                return {};
              }
              storeElements(buffer, first, *elements);
              return {};
            });
  buffers[result] = buffer;
  return status;
}

/// A product whose results are in registers.
LogicalResult AllHeadsEmitter::emitContract(pos::ContractOp op) {
  const PackedMatrix &matrix = weights.getForward(op);
  Value result = op.getResult(), operand = op.getVector();
  if (!isStreamed(operand)) {
    FailureOr<Values> elements = getAll(operand);
    if (failed(elements))
      return failure();
    registers[result] = multiply(matrix, *elements, result);
    return success();
  }
  LogicalResult status = success();
  Values zeros(matrix.rows, kernel.splatF32(0));
  int64_t count = getGroup(matrix.columns);
  registers[result] = forGroups(
      matrix.columns, zeros, [&](Index first, ValueRange sums) -> Values {
        FailureOr<Values> elements = getElements(operand, first, count);
        if (failed(elements)) {
          status = failure();
          return Values(sums);
        }
        return accumulate(matrix, first, *elements, sums);
      });
  return status;
}

LogicalResult AllHeadsEmitter::emitForHeads(pos::ForHeadsOp op) {
  int64_t heads = getVectorExtent(op.getResult());
  FailureOr<SmallVector<Values>> inputs = getElements(op.getInputs(), 0, heads);
  if (failed(inputs))
    return failure();
  Values results;
  for (int64_t head = 0; head < heads; ++head) {
    if (failed(point.enterHead(head)))
      return failure();
    Values arguments;
    for (Values &input : *inputs)
      arguments.push_back(input[head]);
    FailureOr<SmallVector<Value>> value = emitPayload(
        builder, op.getBody().front(), arguments, point.getScalarPoint());
    if (failed(value))
      return failure();
    results.push_back(scalars.toLanes(value->front()));
  }
  registers[op.getResult()] = results;
  return success();
}
