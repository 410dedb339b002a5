//===- FragmentOutput.cpp - The output that a thread holds ----------------===//

#include "codegen/CUDA/Sm80/FragmentOutput.h"
#include "codegen/Tiles/ScoreForm.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

unsigned FragmentOutput::getFirst(unsigned value) const {
  unsigned sums = 0;
  for (unsigned before = 0; before < value; ++before)
    sums += rows[before].countSums();
  return sums;
}

unsigned FragmentOutput::getRow(unsigned number) const {
  unsigned value = 0;
  while (number >= getFirst(value + 1))
    ++value;
  return rows[value].getRow(number - getFirst(value));
}

void FragmentOutput::scale(MutableArrayRef<Value> sums,
                           const FragmentSoftmax::Scaling &scaling) {
  using Values = KernelBuilder::Values;
  auto scaled = [&] {
    Values all(sums);
    for (auto [number, sum] : llvm::enumerate(all))
      sum = kernel.mulF(sum, scaling.factors[getRow(number)]);
    return all;
  };
  SmallVector<Type> types(sums.size(), kernel.f32);
  llvm::copy(kernel.choose(scaling.isNeeded, types, scaled,
                           [&] { return Values(sums); }),
             sums.begin());
}

void FragmentOutput::forRows(
    ArrayRef<FragmentSoftmax::Row> softmaxes,
    function_ref<void(int64_t, Index, const FragmentSoftmax::Row &)> body) {
  for (int64_t row = 0; row < static_cast<int64_t>(softmaxes.size()); ++row) {
    point.setElement(FragmentElement::get(row / 2, 0, 2 * (row % 2)));
    Value exists = point.exists(pos::Side::query);
    kernel.when(kernel.both(exists, isStored), [&] {
      body(row, kernel.fromI32(point.getNumber(pos::Side::query)),
           softmaxes[row]);
    });
  }
}

void FragmentOutput::store(Index batch, Index head, ValueRange sums,
                           ArrayRef<FragmentSoftmax::Row> softmaxes) {
  Values all(sums);
  forRows(softmaxes, [&](int64_t row, Index query,
                         const FragmentSoftmax::Row &softmax) {
    Value zero = kernel.constantF32(0);
    Value inverse = thread.reciprocal(softmax.sum);
    // A row without keys may have summed anything up: it is replaced, not
    // scaled.
    auto finish = [&](Value sum) {
      return kernel.selectF(softmax.isLive, kernel.mulF(sum, inverse), zero);
    };
    for (unsigned value = 0; value < rows.size(); ++value)
      rows[value].store(getSums(all, value), row,
                        arguments.getAddress(launch.results.outputs[value],
                                             {batch, head, query}),
                        getRowElement(launch.plan), finish);
    Value isFirst = kernel.equal(kernel.fromI32(point.column), 0);
    kernel.when(isFirst, [&] { storeStatistics(batch, head, query, softmax); });
  });
}

void FragmentOutput::storeSplit(Index split, Index batch, Index head,
                                ValueRange sums,
                                ArrayRef<FragmentSoftmax::Row> softmaxes) {
  Values all(sums);
  forRows(softmaxes, [&](int64_t row, Index query,
                         const FragmentSoftmax::Row &softmax) {
    auto finish = [&](Value sum) {
      return kernel.selectF(softmax.isLive, sum, kernel.constantF32(0));
    };
    for (unsigned value = 0; value < rows.size(); ++value)
      rows[value].store(getSums(all, value), row,
                        arguments.getAddress(launch.splitOutputs[value],
                                             {split, batch, head, query}),
                        kernel.f32, finish);
    Value isFirst = kernel.equal(kernel.fromI32(point.column), 0);
    kernel.when(isFirst, [&] {
      for (int64_t part : {0, 1})
        kernel.store(part ? softmax.sum : softmax.shift,
                     arguments.getAddress(launch.splitSoftmax,
                                          {split, batch, head, part, query}));
    });
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
