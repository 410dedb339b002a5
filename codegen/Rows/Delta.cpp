//===- Delta.cpp - Statistics of query rows for the backward --------------===//
//
// dS = P (dP - delta) with delta = rowsum(o do) - dlse, and P = exp(score -
// shift) / sum with what the forward left. A row without keys has a sum of 0; P
// is 0 there whatever the score is.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/Delta.h"
#include "codegen/Rows/RowWords.h"
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
  void emitVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                   int64_t block, const Item &item) const;
  Value areWords(KernelBuilder &kernel, ArgumentBlock &arguments) const;
};

/// Rows of a head, one per lane of a vector.
struct RowBlock {
  Index batch, head, first;
  Value last; ///< in each lane (i32), the last row that there is, from `first`
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
    auto add = [&](Value lane, ValueRange carried) -> KernelBuilder::Values {
      auto load = [&](Value row, Index stride) {
        return widen(kernel.load(
            element, kernel.advance(row, {kernel.mul(lane, stride)}, element)));
      };
      return {kernel.fma(load(a, strideA), load(b, strideB), carried[0])};
    };
    Value zero = kernel.constantF32(0.0);
    return kernel.target.wantsShortCode
               ? kernel.rolledLoop(0, dim, 1, zero, add)
               : kernel.loop(0, dim, 1, zero, add);
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

//===----------------------------------------------------------------------===//
// As many rows as a vector has lanes
//===----------------------------------------------------------------------===//

/// Whether all rows are words; null where no row of that many elements is.
Value DeltaOperands::areWords(KernelBuilder &kernel,
                              ArgumentBlock &arguments) const {
  Value all;
  for (auto [output, gradient] : llvm::zip_equal(outputs, outputGradients)) {
    std::optional<RowWords> words =
        RowWords::find(kernel.target, arguments.getElementType(output),
                       arguments.getSize(output, 3).getConstant());
    if (!words)
      return {};
    for (unsigned tensor : {output, gradient})
      all = kernel.both(all, words->areIn(kernel, arguments, tensor));
  }
  return all;
}

namespace {
/// Writes the products of the rows of two tensors. Each vector that is loaded
/// has words of several rows, which as many lanes share.
class RowDots {
public:
  RowDots(KernelBuilder &kernel, ArgumentBlock &arguments,
          const RowWords &words, unsigned a, unsigned b, const RowBlock &block)
      : kernel(kernel), words(words), block(block),
        rows(std::min(words.lanes, kernel.target.loadsAtOnce / 2)),
        inRow(remLanes(kernel, kernel.lanes(0), words.lanes)) {
    for (unsigned tensor : {a, b})
      sides.push_back(
          {arguments.getAddress(tensor, {block.batch, block.head, block.first}),
           words.getStride(kernel, arguments, tensor, /*axis=*/2)});
  }

  /// Lane l: the product of the rows of number l.
  Value emit();

private:
  struct Side {
    Value base, stride;
  };
  KernelBuilder::Values addVector(ValueRange numbers, Index vector,
                                  ValueRange sums);
  KernelBuilder::Values addRows(ValueRange numbers);

  KernelBuilder &kernel;
  const RowWords &words;
  const RowBlock &block;
  int64_t rows; ///< of a group of lanes that are loaded before one is used
  Value inRow;  ///< the lane's number among those that share a row
  SmallVector<Side, 2> sides;
};
} // namespace

/// Adds what a vector of words has of each row.
KernelBuilder::Values RowDots::addVector(ValueRange numbers, Index vector,
                                         ValueRange sums) {
  Index before = kernel.mul(vector, kernel.width());
  Value place = addLanes(kernel, inRow, kernel.broadcast(kernel.toI32(before)));
  Value isIn;
  if (words.words % words.lanes != 0) {
    Value last = kernel.splatI32(static_cast<int32_t>(words.words - 1));
    isIn = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                 arith::CmpIPredicate::sle, place, last);
    place = minLanes(kernel, place, last);
  }
  SmallVector<KernelBuilder::Values, 2> loaded(2);
  for (auto [side, values] : llvm::zip_equal(sides, loaded))
    for (Value number : numbers)
      values.push_back(words.load(
          kernel, side.base,
          addLanes(kernel, mulLanes(kernel, number, side.stride), place)));
  KernelBuilder::Values next;
  for (auto [sum, left, right] : llvm::zip_equal(sums, loaded[0], loaded[1])) {
    Value more = sum;
    for (auto [x, y] : llvm::zip_equal(words.unpack(kernel, left),
                                       words.unpack(kernel, right)))
      more = kernel.fma(x, y, more);
    next.push_back(isIn ? kernel.selectF(isIn, more, sum) : more);
  }
  return next;
}

KernelBuilder::Values RowDots::addRows(ValueRange numbers) {
  KernelBuilder::Values sums(numbers.size(), kernel.splatF32(0));
  if (words.vectors == 1)
    return addVector(numbers, 0, sums);
  return kernel.loop(0, words.vectors, 1, sums,
                     [&](Value vector, ValueRange carried) {
                       return addVector(numbers, vector, carried);
                     });
}

Value RowDots::emit() {
  Value group = divLanes(kernel, kernel.lanes(0), words.lanes);
  Value firstRow = mulLanes(kernel, group,
                            kernel.splatI32(static_cast<int32_t>(words.lanes)));
  auto add = [&](Value chunk, ValueRange known) -> KernelBuilder::Values {
    KernelBuilder::Values numbers;
    for (int64_t row = 0; row < rows; ++row) {
      Index number = kernel.add(kernel.mul(chunk, rows), row);
      Value own =
          addLanes(kernel, firstRow, kernel.broadcast(kernel.toI32(number)));
      numbers.push_back(minLanes(kernel, own, block.last));
    }
    Value sums = sumGroups(kernel, addRows(numbers), words.lanes);
    Value isOwn = arith::CmpIOp::create(
        kernel.builder, kernel.loc, arith::CmpIPredicate::eq,
        divLanes(kernel, inRow, rows), kernel.broadcast(kernel.toI32(chunk)));
    return {kernel.selectF(isOwn, sums, known[0])};
  };
  return kernel.loop(0, words.lanes / rows, 1, kernel.splatF32(0), add)[0];
}

/// The rows of an item as `emitItem` has them, where a lane has a row of its
/// own and a vector the words of several.
void DeltaOperands::emitVectors(KernelBuilder &kernel, ArgumentBlock &arguments,
                                int64_t block, const Item &item) const {
  Index batch = item[0], head = item[1];
  Index rows = arguments.getSize(outputs.front(), 2);
  Index end = kernel.add(item[2], block);
  Value zero = kernel.splatF32(0), hidden = kernel.splatF32(hiddenScore);
  auto emit = [&](Value row) {
    Index first = kernel.min(row, kernel.sub(rows, 1));
    Index last = kernel.sub(kernel.sub(rows, first), 1);
    RowBlock ofRows{batch, head, first, kernel.broadcast(kernel.toI32(last))};
    Value number = minLanes(kernel, kernel.lanes(0), ofRows.last);
    auto load = [&](unsigned tensor, ArrayRef<Index> at) {
      Value step =
          kernel.broadcast(kernel.toI32(arguments.getStride(tensor, 2)));
      return kernel.gather(kernel.f32, arguments.getAddress(tensor, at),
                           mulLanes(kernel, number, step));
    };
    Value ofLse = load(lseGradient, {batch, head, first});
    Value shift = load(statistics, {batch, head, first, 0});
    Value sum = load(statistics, {batch, head, first, 1});
    Value negative = ofLse;
    for (auto [output, gradient] : llvm::zip_equal(outputs, outputGradients)) {
      RowWords words =
          *RowWords::find(kernel.target, arguments.getElementType(output),
                          arguments.getSize(output, 3).getConstant());
      RowDots dots(kernel, arguments, words, output, gradient, ofRows);
      negative = kernel.subF(negative, dots.emit());
    }
    Index valid = kernel.sub(rows, row);
    Index count = kernel.min(kernel.width(), kernel.sub(end, row));
    Value isRow = kernel.lanesBelow(valid);
    Value seesKeys = kernel.compareF(arith::CmpFPredicate::UNE, sum, zero);
    Value isSeen = kernel.both(isRow, seesKeys);
    auto store = [&](unsigned tensor, Value value) {
      kernel.storePart(value, arguments.getAddress(tensor, {batch, head, row}),
                       count);
    };
    store(negativeDelta, kernel.selectF(isRow, negative, zero));
    store(negativeShift,
          kernel.selectF(isSeen, kernel.subF(zero, shift), hidden));
    store(inverseSum,
          kernel.selectF(isSeen, kernel.divF(kernel.splatF32(1), sum), zero));
    if (!termPartials)
      return;
    Index chunk = kernel.sub(arguments.getSize(*termPartials, 0), 1);
    kernel.storePart(
        kernel.selectF(seesKeys, ofLse, zero),
        arguments.getAddress(*termPartials, {chunk, batch, head, row}),
        kernel.min(count, valid));
  };
  kernel.loop(item[2], end, kernel.width(), emit);
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
    auto emitRows = [&] {
      items.forEach([&](const Item &item) {
        numbers.emitItem(kernel, arguments, block, item);
      });
    };
    auto emitVectors = [&] {
      items.forEach([&](const Item &item) {
        numbers.emitVectors(kernel, arguments, block, item);
      });
    };
    Value areWords = kernel.target.loadsAtOnce > 1
                         ? numbers.areWords(kernel, arguments)
                         : Value();
    if (areWords)
      kernel.when(areWords, emitVectors, emitRows);
    else
      emitRows();
  };
  operands.launch(lowering, "delta", {getItems, noScratch, run});
  return statistics;
}
