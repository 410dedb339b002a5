//===- Delta.cpp - Statistics of query rows for the backward --------------===//
//
// dS = P (dP - delta) with delta = rowsum(o do) - dlse, and P = exp(score -
// shift) / sum with what the forward left. A row without keys has a sum of 0; P
// is 0 there whatever the score is.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/Delta.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/ScoreForm.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
/// Operand numbers of the kernel.
struct DeltaOperands {
  SmallVector<unsigned> outputs, outputGradients;
  unsigned statistics, lseGradient, negativeShift, inverseSum, negativeDelta;
  std::optional<unsigned> termPartials;

  void emitItem(KernelBuilder &kernel, ArgumentBlock &arguments, int64_t block,
                const Item &item) const;
};
} // namespace

/// The sum of the products of two rows of `dim` elements.
static Value emitRowProduct(KernelBuilder &kernel, Type element, int64_t dim,
                            Value a, Index strideA, Value b, Index strideB) {
  int64_t width = kernel.width(), whole = dim / width * width;
  auto lanes = VectorType::get(width, element);
  auto widen = [&](Value value) {
    return element.isF32() ? value : kernel.extend(value);
  };
  Value areDense =
      kernel.both(kernel.equal(strideA, 1), kernel.equal(strideB, 1));
  auto dense = [&]() -> KernelBuilder::Values {
    auto multiply = [&](Index lane, Index count, Value sum) {
      auto load = [&](Value row) {
        return widen(kernel.loadPart(
            lanes, kernel.advance(row, {lane}, element), count));
      };
      return kernel.fma(load(a), load(b), sum);
    };
    Value sum = kernel.loop(
        0, whole, width, kernel.splatF32(0.0),
        [&](Value lane, ValueRange carried) -> KernelBuilder::Values {
          return {multiply(lane, width, carried[0])};
        })[0];
    if (whole != dim)
      sum = multiply(whole, dim - whole, sum);
    return {kernel.sumLanes(sum)};
  };
  auto strided = [&]() -> KernelBuilder::Values {
    return kernel.loop(
        0, dim, 1, kernel.constantF32(0.0),
        [&](Value lane, ValueRange carried) -> KernelBuilder::Values {
          auto load = [&](Value row, Index stride) {
            return widen(kernel.load(
                element,
                kernel.advance(row, {kernel.mul(lane, stride)}, element)));
          };
          return {kernel.fma(load(a, strideA), load(b, strideB), carried[0])};
        });
  };
  return kernel.choose(areDense, {kernel.f32}, dense, strided)[0];
}

/// The rows of an item. Those past the last one see no key.
void DeltaOperands::emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                             int64_t block, const Item &item) const {
  Type element = arguments.getElementType(outputs.front());
  Index batch = item[0], head = item[1], first = item[2];
  Index end = kernel.add(first, block);
  Index valid = kernel.min(end, arguments.getSize(outputs.front(), 2));
  Value hidden = kernel.constantF32(hiddenScore);
  auto store = [&](unsigned tensor, Index row, Value value) {
    kernel.store(value, arguments.getAddress(tensor, {batch, head, row}));
  };
  kernel.loop(first, valid, 1, [&](Value row) {
    auto load = [&](unsigned tensor) {
      return kernel.load(kernel.f32,
                         arguments.getAddress(tensor, {batch, head, row}));
    };
    Value negative = load(lseGradient);
    for (auto [output, gradient] : llvm::zip_equal(outputs, outputGradients)) {
      Index dim = arguments.getSize(output, 3);
      Value product =
          emitRowProduct(kernel, element, dim.getConstant(),
                         arguments.getAddress(output, {batch, head, row}),
                         arguments.getStride(output, 3),
                         arguments.getAddress(gradient, {batch, head, row}),
                         arguments.getStride(gradient, 3));
      negative = kernel.subF(negative, product);
    }
    store(negativeDelta, row, negative);
    auto loadPart = [&](int64_t part) {
      return kernel.loadF32(
          arguments.getAddress(statistics, {batch, head, row, part}));
    };
    Value shift = loadPart(0), sum = loadPart(1), zero = kernel.constantF32(0);
    Value seesKeys = kernel.compareF(arith::CmpFPredicate::UNE, sum, zero);
    store(negativeShift, row,
          kernel.selectF(seesKeys, kernel.subF(zero, shift), hidden));
    store(inverseSum, row,
          kernel.selectF(seesKeys, kernel.divF(kernel.constantF32(1), sum),
                         zero));
    if (!termPartials)
      return;
    Index last = kernel.sub(arguments.getSize(*termPartials, 0), 1);
    kernel.store(kernel.selectF(seesKeys, load(lseGradient), zero),
                 arguments.getAddress(*termPartials, {last, batch, head, row}));
  });
  kernel.loop(valid, end, 1, [&](Value row) {
    store(negativeDelta, row, kernel.constantF32(0.0));
    store(negativeShift, row, hidden);
    store(inverseSum, row, kernel.constantF32(0.0));
  });
}

RowStatistics sextant::codegen::launchDelta(const Lowering &lowering,
                                            int64_t block, Value paddedRows,
                                            Value termPartials) {
  auto op = cast<pos::AttentionBackwardOp>(lowering.plan.owner);
  auto type =
      RankedTensorType::get(SmallVector<int64_t>(3, ShapedType::kDynamic),
                            lowering.builder.getF32Type());
  SmallVector<Value> sizes{lowering.getDim(op.getQuery(), 0),
                           lowering.getDim(op.getQuery(), 1), paddedRows};
  RowStatistics statistics{lowering.allocate(type, sizes),
                           lowering.allocate(type, sizes),
                           lowering.allocate(type, sizes)};
  LaunchOperands operands;
  DeltaOperands numbers;
  for (Value output : op.getOutputs())
    numbers.outputs.push_back(operands.read(output));
  for (Value gradient : op.getOutputGradients())
    numbers.outputGradients.push_back(operands.read(gradient));
  numbers.statistics = operands.read(op.getStatistics());
  numbers.lseGradient = operands.read(op.getLseGradient());
  numbers.negativeShift = operands.write(statistics.negativeShift);
  numbers.inverseSum = operands.write(statistics.inverseSum);
  numbers.negativeDelta = operands.write(statistics.negativeDelta);
  if (termPartials)
    numbers.termPartials = operands.write(termPartials);

  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    unsigned rows = numbers.negativeShift;
    return ItemSpace(kernel, {arguments.getSize(rows, 0),
                              arguments.getSize(rows, 1),
                              {arguments.getSize(rows, 2), block}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      numbers.emitItem(kernel, arguments, block, item);
    });
  };
  operands.launch(lowering, "delta", {getItems, noScratch, run});
  return statistics;
}
