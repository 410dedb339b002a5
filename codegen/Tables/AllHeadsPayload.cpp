//===- AllHeadsPayload.cpp - Forward emission of payloads of vectors ------===//

#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Tables/PayloadCall.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

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

/// Weight `place` behind `from`, in all lanes. Where lanes are threads
/// compilers join weights that are known to be aligned: `from` is a multiple of
/// `unit` words behind the start of the buffer, which is aligned to any vector.
static Value loadWeight(KernelBuilder &kernel, Value from, int64_t place,
                        int64_t unit) {
  if (!kernel.target.near.bytes && !kernel.target.isThread)
    return kernel.loadBroadcast(from, {place});
  constexpr int64_t mostBytes = 16;
  int64_t bytes = std::gcd(mostBytes, 4 * std::gcd(place, unit));
  return kernel.broadcast(LLVM::LoadOp::create(
      kernel.builder, kernel.loc, kernel.f32, kernel.advance(from, {place}),
      static_cast<unsigned>(bytes)));
}

Values AllHeadsEmitter::multiplyGroup(const PackedMatrix &matrix,
                                      ValueRange operand, Index first,
                                      int64_t count) {
  assert(matrix.streamsResults && count == getGroup(matrix.rows));
  Value from = kernel.advance(point.getPacked(matrix.place),
                              {kernel.mul(first, matrix.columns)});
  int64_t unit = std::gcd(matrix.place, count * matrix.columns);
  Values results(count);
  for (auto [column, element] : llvm::enumerate(operand))
    for (int64_t row = 0; row < count; ++row) {
      Value weight = loadWeight(
          kernel, from, static_cast<int64_t>(column) * count + row, unit);
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
  int64_t unit = std::gcd(matrix.place, matrix.rows);
  for (auto [number, element] : llvm::enumerate(elements))
    for (int64_t row = 0; row < matrix.rows; ++row)
      next[row] = kernel.fma(
          loadWeight(kernel, from,
                     static_cast<int64_t>(number) * matrix.rows + row, unit),
          element, next[row]);
  return next;
}

Values AllHeadsEmitter::multiply(const PackedMatrix &matrix, ValueRange operand,
                                 Value owner) {
  int64_t width = kernel.width(), count = getGroup(matrix.rows);
  Value buffer = point.getBuffer(owner, matrix.rows);
  kernel.rolledLoop(
      0, matrix.rows, count, {}, [&](Index first, ValueRange) -> Values {
        storeElements(buffer, first,
                      multiplyGroup(matrix, operand, first, count));
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
  return kernel.rolledLoop(0, extent, count, initial, run);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Values AllHeadsEmitter::fail(int64_t count) {
  kernel.check(failure());
  return Values(count, kernel.splatF32(0));
}

SmallVector<Values> AllHeadsEmitter::getElements(ValueRange values, Index first,
                                                 int64_t count) {
  SmallVector<Values> all;
  for (Value value : values)
    all.push_back(getElements(value, first, count));
  return all;
}

Values AllHeadsEmitter::getElements(Value vector, Index first, int64_t count) {
  if (failed(kernel.getStatus()))
    return fail(count);
  if (!isVector(vector)) {
    Value scalar = scalars.get(vector);
    return scalar ? Values(count, scalars.toLanes(scalar)) : fail(count);
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
  Values elements = compute(vector, first, count);
  if (group)
    groups[depth - 1].known[vector] = elements;
  return elements;
}

Values AllHeadsEmitter::compute(Value vector, Index first, int64_t count) {
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
    return fail(count);
  }
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return computeContract(contract, first, count);
  if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumRegions() == 0)
    return computeElementwise(*op, first, count);
  op->emitOpError("of vectors has no kernel on this target");
  return fail(count);
}

Values AllHeadsEmitter::computeElementwise(Operation &op, Index first,
                                           int64_t count) {
  SmallVector<Values> operands = getElements(op.getOperands(), first, count);
  Type element = getElementTypeOrSelf(op.getResult(0).getType());
  Values results;
  for (int64_t number = 0; number < count; ++number) {
    Operation *clone = op.cloneWithoutRegions();
    for (auto [place, values] : llvm::enumerate(operands))
      clone->setOperand(place, values[number]);
    clone->getResult(0).setType(scalars.toLanes(scalars.convert(element)));
    builder.insert(clone);
    results.push_back(clone->getResult(0));
  }
  return results;
}

Values AllHeadsEmitter::computeContract(pos::ContractOp op, Index first,
                                        int64_t count) {
  const PackedMatrix &matrix = weights.getForward(op);
  if (!isStreamed(op.getVector())) {
    Values results =
        multiplyGroup(matrix, getAll(op.getVector()), first, count);
    keep(op.getResult(), first, results);
    return results;
  }
  // Both axes are streamed: one element of the operand at a time, from memory.
  Values zeros(count, kernel.splatF32(0));
  Value from = kernel.advance(point.getPacked(matrix.place),
                              {kernel.mul(first, matrix.columns)});
  Values sums = kernel.loop(
      0, matrix.columns, 1, zeros, [&](Value column, ValueRange carried) {
        Values next(carried);
        Value element = getElements(op.getVector(), column, 1).front();
        Value at = kernel.advance(from, {kernel.mul(column, count)});
        for (int64_t row = 0; row < count; ++row)
          next[row] =
              kernel.fma(kernel.loadBroadcast(at, {row}), element, next[row]);
        return next;
      });
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

void AllHeadsEmitter::emit(Block &block, ValueRange argument) {
  if (!argument.empty())
    registers[block.getArgument(0)] = Values(argument);
  for (Operation &op : block.without_terminator()) {
    if (failed(kernel.getStatus()))
      return;
    if (op.getNumResults() == 1 && isVector(op.getResult(0)))
      emitVector(op);
    else
      kernel.check(scalars.emitOp(op));
  }
}

void AllHeadsEmitter::emitVector(Operation &op) {
  Value result = op.getResult(0);
  if (auto forHeads = dyn_cast<pos::ForHeadsOp>(op))
    return emitForHeads(forHeads);
  // Scalars from outside of the payload: here, not in the first loop that needs
  // them.
  for (Value operand : op.getOperands())
    if (!isVector(operand) && !scalars.get(operand))
      return kernel.check(failure());
  // Loads stand where they are used.
  if (isa<pos::ElementsOp, tensor::SplatOp>(op) ||
      op.hasTrait<OpTrait::ConstantLike>())
    return;
  if (!isStreamed(result)) {
    if (auto contract = dyn_cast<pos::ContractOp>(op))
      return emitContract(contract);
    registers[result] = compute(result, 0, getVectorExtent(result));
    return;
  }
  if (!isNeededWhole(result, weights))
    return; // on demand
  int64_t extent = getVectorExtent(result);
  Value buffer = point.getBuffer(result, extent);
  forGroups(extent, {}, [&](Index first, ValueRange) {
    storeElements(buffer, first, compute(result, first, getGroup(extent)));
    return Values();
  });
  buffers[result] = buffer;
}

/// A product whose results are in registers.
void AllHeadsEmitter::emitContract(pos::ContractOp op) {
  const PackedMatrix &matrix = weights.getForward(op);
  Value result = op.getResult(), operand = op.getVector();
  if (!isStreamed(operand)) {
    registers[result] = multiply(matrix, getAll(operand), result);
    return;
  }
  Values zeros(matrix.rows, kernel.splatF32(0));
  int64_t count = getGroup(matrix.columns);
  registers[result] =
      forGroups(matrix.columns, zeros, [&](Index first, ValueRange sums) {
        return accumulate(matrix, first, getElements(operand, first, count),
                          sums);
      });
}

void AllHeadsEmitter::emitForHeads(pos::ForHeadsOp op) {
  int64_t heads = getVectorExtent(op.getResult());
  SmallVector<Values> inputs = getElements(op.getInputs(), 0, heads);
  Values results;
  for (int64_t head = 0; head < heads; ++head) {
    point.enterHead(head);
    Values arguments;
    for (Values &input : inputs)
      arguments.push_back(input[head]);
    Values values = callPayload(kernel, op.getBody().front(), arguments,
                                point.getScalarPoint());
    results.push_back(scalars.toLanes(values.front()));
  }
  registers[op.getResult()] = results;
}
