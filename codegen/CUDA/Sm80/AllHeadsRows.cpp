//===- AllHeadsRows.cpp - Rows of all heads in shared memory --------------===//

#include "codegen/CUDA/Sm80/AllHeadsRows.h"

using namespace mlir;
using namespace sextant::codegen;

void AllHeadsRows::copy(Index batch, Value first, Value to, Index count) {
  KernelBuilder &kernel = thread.kernel;
  Value last = kernel.toI32(kernel.sub(count, 1));
  Value none = thread.constant(INT32_MAX);
  rows.copyOfHeads(batch, heads * fragmentRows, to, [&](Value row) {
    Value head = thread.div(row, fragmentRows);
    Value number = thread.add(first, thread.rem(row, fragmentRows));
    return std::pair(Index(kernel.fromI32(thread.min(head, last))),
                     thread.select(thread.less(last, head), none, number));
  });
}
