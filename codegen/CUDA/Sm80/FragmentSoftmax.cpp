//===- FragmentSoftmax.cpp - Online softmax of fragments ------------------===//

#include "codegen/CUDA/Sm80/FragmentSoftmax.h"
#include "codegen/Tiles/ScoreForm.h"
#include <limits>

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// How far a maximum may lie above a row's shift, in base 2.
static constexpr float mostExponent = 8;

/// The maximum of a row that has seen no key: finite in base 2, too, where a
/// score below twice of it overflows. So exponents of hidden scores are -inf
/// whatever the row has seen, and nothing asks before.
double FragmentSoftmax::getLowest() const {
  constexpr double most = std::numeric_limits<float>::max();
  return form.exponentFactor <= 1.0 ? -most : -0.5 * most / form.exponentFactor;
}

FragmentSoftmax::State FragmentSoftmax::begin() {
  auto rows = static_cast<size_t>(tile.countThreadRows());
  return {Values(rows, kernel.constantF32(getLowest())),
          Values(rows, kernel.constantF32(0))};
}

SmallVector<unsigned> FragmentSoftmax::getScores(int64_t row) const {
  SmallVector<unsigned> numbers;
  for (int64_t columns = 0; columns < tile.countGroups(); ++columns)
    for (int64_t element : {0, 1})
      numbers.push_back(
          tile.getNumber(row / 2, columns, 2 * (row % 2) + element));
  return numbers;
}

/// Joins what the four lanes of a row have.
Value FragmentSoftmax::acrossRow(Value value,
                                 function_ref<Value(Value, Value)> join) {
  for (int64_t apart : {1, 2})
    value = join(value, thread.shuffleXor(value, apart));
  return value;
}

Value FragmentSoftmax::getShift(Value maximum) {
  return form.exponentFactor == 1.0
             ? maximum
             : kernel.mulF(maximum, kernel.constantF32(form.exponentFactor));
}

/// The maxima of a tile are there before the first exponential: where something
/// is to be scaled is a branch, and exponentials behind it run beside the
/// products that follow them.
void FragmentSoftmax::update(State &state, Values &scores, Value addend,
                             function_ref<void(const Scaling &)> scale) {
  Scaling scaling;
  Values shifts;
  Value isAnyBehind;
  for (int64_t row = 0; row < tile.countThreadRows(); ++row) {
    SmallVector<unsigned> numbers = getScores(row);
    Value maximum = scores[numbers.front()];
    for (unsigned number : ArrayRef(numbers).drop_front())
      maximum = thread.maxNumber(maximum, scores[number]);
    maximum = acrossRow(
        maximum, [&](Value a, Value b) { return thread.maxNumber(a, b); });
    if (addend)
      maximum = kernel.addF(maximum, addend);
    maximum = thread.maxNumber(state.maxima[row], maximum);
    Value before = getShift(state.maxima[row]);
    Value isBehind = kernel.compareF(arith::CmpFPredicate::OLT,
                                     kernel.subF(before, getShift(maximum)),
                                     kernel.constantF32(-mostExponent));
    isAnyBehind = isAnyBehind ? kernel.either(isAnyBehind, isBehind) : isBehind;
    state.maxima[row] = kernel.selectF(isBehind, maximum, state.maxima[row]);
    shifts.push_back(getShift(state.maxima[row]));
    scaling.factors.push_back(thread.exp2(kernel.subF(before, shifts.back())));
  }
  scaling.isNeeded = arith::CmpIOp::create(
      kernel.builder, kernel.loc, arith::CmpIPredicate::ne,
      thread.ballot(isAnyBehind), thread.constant(0));
  scale(scaling);
  for (int64_t row = 0; row < tile.countThreadRows(); ++row) {
    Value negative = kernel.subF(
        addend ? getShift(addend) : kernel.constantF32(0), shifts[row]);
    Value sum;
    for (unsigned number : getScores(row)) {
      Value &score = scores[number];
      Value exponent =
          form.exponentFactor == 1.0
              ? kernel.addF(score, negative)
              : kernel.fma(score, kernel.constantF32(form.exponentFactor),
                           negative);
      score = thread.exp2(exponent);
      sum = sum ? kernel.addF(sum, score) : score;
    }
    state.sums[row] = kernel.fma(state.sums[row], scaling.factors[row], sum);
  }
}

SmallVector<FragmentSoftmax::Row> FragmentSoftmax::finish(const State &state) {
  SmallVector<Row> rows;
  for (auto [maximum, own] : llvm::zip_equal(state.maxima, state.sums)) {
    Row row;
    row.sum =
        acrossRow(own, [&](Value a, Value b) { return kernel.addF(a, b); });
    // NaN counts as seen: the maximum skips NaN, the sum keeps it.
    Value seen = kernel.addF(maximum, kernel.subF(row.sum, row.sum));
    row.isLive = kernel.either(kernel.compareF(arith::CmpFPredicate::UGT, seen,
                                               kernel.constantF32(getLowest())),
                               kernel.compareF(arith::CmpFPredicate::OGT,
                                               row.sum, kernel.constantF32(0)));
    row.shift = kernel.selectF(row.isLive, getShift(maximum),
                               kernel.constantF32(hiddenScore));
    rows.push_back(row);
  }
  return rows;
}
