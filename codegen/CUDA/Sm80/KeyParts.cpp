//===- KeyParts.cpp - Parts of a block that have keys of their own --------===//

#include "codegen/CUDA/Sm80/KeyParts.h"
#include "codegen/Tiles/ScoreForm.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Of the thread in a part that is so many further: lanes have neighbouring
/// words.
Value KeyParts::getWord(Value further, unsigned number) {
  return thread.advance(
      thread.getShared(thread.mul(thread.lane, wordBytes), further),
      static_cast<int64_t>(number) * warpLanes * wordBytes);
}

namespace {
/// What a part gives: per row its shift and its sum, then the sums of outputs.
struct GivenRow {
  unsigned shift, sum;
  static GivenRow get(unsigned row) { return {2 * row, 2 * row + 1}; }
};
} // namespace

/// Joins the row with one of other keys, of which `shift` and `sum` are known;
/// gives what sums of both are to be scaled by.
std::pair<Value, Value> KeyParts::joinRow(Row &own, Value shift, Value sum) {
  Value isOther = kernel.compareF(arith::CmpFPredicate::UNE, shift,
                                  kernel.constantF32(hiddenScore));
  // One that has seen no key has sums of 0, whatever they are scaled by, and no
  // say in the shift.
  Value ownShift = kernel.selectF(own.isLive, own.shift, shift);
  Value otherShift = kernel.selectF(isOther, shift, ownShift);
  own.isLive = kernel.either(own.isLive, isOther);
  own.shift = kernel.maxF(ownShift, otherShift);
  // Of none, -inf, no difference is a number.
  Value most = kernel.selectF(own.isLive, own.shift, kernel.constantF32(0));
  Value ofOwn = thread.exp2(kernel.subF(ownShift, most));
  Value ofOther = thread.exp2(kernel.subF(otherShift, most));
  own.sum = kernel.fma(sum, ofOther, kernel.mulF(own.sum, ofOwn));
  return {ofOwn, ofOther};
}

/// Joins what the thread has with what the part that is so many further gave.
void KeyParts::joinWith(int64_t further, SmallVector<Row> &rows, Values &sums,
                        const FragmentOutput &output) {
  auto load = [&](unsigned number) {
    return thread.loadShared(kernel.f32,
                             getWord(thread.constant(further), number));
  };
  SmallVector<std::pair<Value, Value>> weights;
  for (auto [number, row] : llvm::enumerate(rows)) {
    GivenRow given = GivenRow::get(number);
    weights.push_back(joinRow(row, load(given.shift), load(given.sum)));
  }
  unsigned before = GivenRow::get(rows.size()).shift;
  for (auto [number, sum] : llvm::enumerate(sums)) {
    auto [own, other] = weights[output.getRow(number)];
    sum = kernel.fma(load(before + number), other, kernel.mulF(sum, own));
  }
}

static Values flatten(ArrayRef<FragmentSoftmax::Row> rows, ValueRange sums) {
  Values all(sums);
  for (const FragmentSoftmax::Row &row : rows)
    all.append({row.shift, row.sum, row.isLive});
  return all;
}

static void unflatten(ArrayRef<Value> all,
                      MutableArrayRef<FragmentSoftmax::Row> rows,
                      MutableArrayRef<Value> sums) {
  llvm::copy(all.take_front(sums.size()), sums.begin());
  all = all.drop_front(sums.size());
  for (FragmentSoftmax::Row &row : rows) {
    row = {all[0], all[1], all[2]};
    all = all.drop_front(3);
  }
}

void KeyParts::join(SmallVector<Row> &rows, Values &sums,
                    const FragmentOutput &output) {
  if (parts == 1)
    return;
  Value zero = kernel.constantF32(0), none = thread.constant(0);
  // A row without keys may have summed anything up.
  for (auto [number, sum] : llvm::enumerate(sums))
    sum = kernel.selectF(rows[output.getRow(number)].isLive, sum, zero);
  for (Row &row : rows)
    row.sum = kernel.selectF(row.isLive, row.sum, zero);
  unsigned before = GivenRow::get(rows.size()).shift;
  for (int64_t left = parts; left > 1;) {
    int64_t half = llvm::divideCeil(left, 2);
    // Nobody reads tiles, or what was given before, any more.
    thread.synchronizeBlock(/*ofAllParts=*/true);
    kernel.when(thread.less(thread.constant(half - 1), thread.part), [&] {
      for (auto [number, row] : llvm::enumerate(rows)) {
        GivenRow given = GivenRow::get(number);
        thread.storeShared(row.shift, getWord(none, given.shift));
        thread.storeShared(row.sum, getWord(none, given.sum));
      }
      for (auto [number, sum] : llvm::enumerate(sums))
        thread.storeShared(sum, getWord(none, before + number));
    });
    thread.synchronizeBlock(/*ofAllParts=*/true);
    // Of an odd number one is left as it is.
    Values all = flatten(rows, sums);
    all = kernel.choose(
        thread.less(thread.part, thread.constant(left - half)),
        ValueRange(all).getTypes(),
        [&] {
          joinWith(half, rows, sums, output);
          return flatten(rows, sums);
        },
        [&] { return all; });
    unflatten(all, rows, sums);
    left = half;
  }
}
