//===- FragmentRows.cpp - Sums of rows that a thread holds ----------------===//

#include "codegen/CUDA/Sm80/FragmentRows.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void FragmentRows::whereColumn(int64_t columns, function_ref<void()> body) {
  int64_t end = llvm::alignTo(columns + 1, fragmentColumns);
  if (shape.padded - lanes + end <= shape.dim)
    return body();
  kernel.when(
      thread.less(thread.add(column, columns), thread.constant(shape.dim)),
      body);
}

/// Two neighbouring elements of a row.
void FragmentRows::storeWord(Value word, Value row, int64_t columns) {
  Value to = kernel.advance(row, {columns}, thread.element);
  if (shape.dim % 2 == 0)
    return whereColumn(columns, [&] { kernel.store(word, to); });
  for (int64_t half : {0, 1})
    whereColumn(columns + half, [&] {
      OpBuilder &builder = kernel.builder;
      Value bits = arith::ShRUIOp::create(builder, kernel.loc, word,
                                          thread.constant(16 * half));
      kernel.store(
          arith::TruncIOp::create(builder, kernel.loc, kernel.i16, bits),
          kernel.advance(to, {half}, thread.element));
    });
}

void FragmentRows::store(ValueRange sums, int64_t row, Value to, Type type,
                         function_ref<Value(Value)> finish) {
  Value first = kernel.advance(to, {kernel.fromI32(column)}, type);
  int64_t groups = lanes / fragmentColumns;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t at = (row / 2 * groups + group) * fragmentElements + 2 * (row % 2);
    int64_t columns = group * fragmentColumns;
    Value low = finish(sums[at]), high = finish(sums[at + 1]);
    if (type == thread.element) {
      storeWord(thread.toElements(low, high), first, columns);
      continue;
    }
    for (int64_t half : {0, 1})
      whereColumn(columns + half, [&] {
        kernel.store(half ? high : low,
                     kernel.advance(first, {columns + half}));
      });
  }
}
