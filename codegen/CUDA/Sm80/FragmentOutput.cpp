//===- FragmentOutput.cpp - The output that a thread holds ----------------===//

#include "codegen/CUDA/Sm80/FragmentOutput.h"
#include "codegen/Tiles/ScoreForm.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

unsigned FragmentOutput::getFirst(unsigned value) const {
  const ForwardTile &tile = launch.tile;
  int64_t columns = 0;
  for (unsigned before = 0; before < value; ++before)
    columns += tile.values[before].padded;
  return tile.blocks * columns / fragmentColumns * fragmentElements;
}

/// The row of the thread that a sum belongs to.
static int64_t getRow(unsigned number, const SharedRowShape &shape) {
  int64_t perBlock = shape.padded / fragmentColumns * fragmentElements;
  return 2 * (number / perBlock) + number % fragmentElements / 2;
}

void FragmentOutput::scale(MutableArrayRef<Value> sums, ValueRange factors) {
  for (unsigned value = 0; value < launch.tile.values.size(); ++value)
    for (auto [number, sum] : llvm::enumerate(getSums(sums, value)))
      sum =
          kernel.mulF(sum, factors[getRow(number, launch.tile.values[value])]);
}

void FragmentOutput::forRows(
    ArrayRef<FragmentSoftmax::Row> rows,
    function_ref<void(int64_t, Index, const FragmentSoftmax::Row &)> body) {
  for (int64_t row = 0; row < static_cast<int64_t>(rows.size()); ++row) {
    FragmentElement element = FragmentElement::get(row / 2, 0, 2 * (row % 2));
    kernel.when(point.isQuery(element.row), [&] {
      point.setElement(element);
      body(row, kernel.fromI32(point.getQuery(element.row)), rows[row]);
    });
  }
}

void FragmentOutput::forPairs(
    ValueRange sums, int64_t row,
    function_ref<void(unsigned, int64_t, Value, Value)> body) {
  Values all(sums);
  for (unsigned value = 0; value < launch.tile.values.size(); ++value) {
    ArrayRef<Value> own = getSums(all, value);
    int64_t blocks = launch.tile.values[value].padded / fragmentColumns;
    for (int64_t n = 0; n < blocks; ++n) {
      int64_t at = (row / 2 * blocks + n) * fragmentElements + 2 * (row % 2);
      body(value, n * fragmentColumns, own[at], own[at + 1]);
    }
  }
}

void FragmentOutput::whereColumn(int64_t columns, int64_t dim,
                                 function_ref<void()> body) {
  int64_t end = llvm::alignTo(columns + 1, fragmentColumns);
  if (end <= dim)
    return body();
  kernel.when(
      thread.less(thread.add(point.column, columns), thread.constant(dim)),
      body);
}

void FragmentOutput::store(Index batch, Index head, ValueRange sums,
                           ArrayRef<FragmentSoftmax::Row> rows) {
  forRows(rows, [&](int64_t row, Index query,
                    const FragmentSoftmax::Row &softmax) {
    Value zero = kernel.constantF32(0);
    Value inverse = kernel.divF(kernel.constantF32(1), softmax.sum);
    // A row without keys may have summed anything up: it is replaced, not
    // scaled.
    auto finish = [&](Value sum) {
      return kernel.selectF(softmax.isLive, kernel.mulF(sum, inverse), zero);
    };
    forPairs(
        sums, row, [&](unsigned value, int64_t columns, Value low, Value high) {
          Value to =
              kernel.advance(arguments.getAddress(launch.results.outputs[value],
                                                  {batch, head, query}),
                             {kernel.fromI32(point.column)}, kernel.bf16);
          storeWord(thread.toBf16(finish(low), finish(high)), to, columns,
                    launch.tile.values[value].dim);
        });
    Value isFirst = kernel.equal(kernel.fromI32(point.column), 0);
    kernel.when(isFirst, [&] { storeStatistics(batch, head, query, softmax); });
  });
}

void FragmentOutput::storeSplit(Index split, Index batch, Index head,
                                ValueRange sums,
                                ArrayRef<FragmentSoftmax::Row> rows) {
  forRows(rows, [&](int64_t row, Index query,
                    const FragmentSoftmax::Row &softmax) {
    forPairs(
        sums, row, [&](unsigned value, int64_t columns, Value low, Value high) {
          Value to =
              kernel.advance(arguments.getAddress(launch.splitOutputs[value],
                                                  {split, batch, head, query}),
                             {kernel.fromI32(point.column)});
          for (int64_t half : {0, 1}) {
            int64_t column = columns + half;
            Value known = kernel.selectF(softmax.isLive, half ? high : low,
                                         kernel.constantF32(0));
            whereColumn(column, launch.tile.values[value].dim, [&] {
              kernel.store(known, kernel.advance(to, {column}));
            });
          }
        });
    Value isFirst = kernel.equal(kernel.fromI32(point.column), 0);
    kernel.when(isFirst, [&] {
      for (int64_t part : {0, 1})
        kernel.store(part ? softmax.sum : softmax.shift,
                     arguments.getAddress(launch.splitSoftmax,
                                          {split, batch, head, part, query}));
    });
  });
}

/// Two neighbouring elements of a row of `dim`.
void FragmentOutput::storeWord(Value word, Value row, int64_t columns,
                               int64_t dim) {
  Value to = kernel.advance(row, {columns}, kernel.bf16);
  if (dim % 2 == 0)
    return whereColumn(columns, dim, [&] { kernel.store(word, to); });
  for (int64_t half : {0, 1})
    whereColumn(columns + half, dim, [&] {
      OpBuilder &builder = kernel.builder;
      Value bits = arith::ShRUIOp::create(builder, kernel.loc, word,
                                          thread.constant(16 * half));
      kernel.store(
          arith::TruncIOp::create(builder, kernel.loc, kernel.i16, bits),
          kernel.advance(to, {half}, kernel.bf16));
    });
}

void FragmentOutput::storeStatistics(Index batch, Index head, Index query,
                                     const FragmentSoftmax::Row &softmax) {
  Value logarithm =
      math::LogOp::create(kernel.builder, kernel.loc, softmax.sum);
  Value lse = kernel.fma(softmax.shift, kernel.constantF32(llvm::numbers::ln2),
                         logarithm);
  if (pos::RowTermOp term = launch.plan.rowTerm)
    lse = kernel.addF(lse, point.hoisted(kernel.builder, term.getHoist()));
  lse = kernel.selectF(softmax.isLive, lse, kernel.constantF32(hiddenScore));
  kernel.store(lse,
               arguments.getAddress(launch.results.lse, {batch, head, query}));
  if (!launch.results.statistics)
    return;
  auto storePart = [&](int64_t part, Value value) {
    kernel.store(value, arguments.getAddress(*launch.results.statistics,
                                             {batch, head, query, part}));
  };
  storePart(0, softmax.shift);
  storePart(1, softmax.sum);
}
