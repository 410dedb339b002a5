//===- FragmentSoftmax.h - Online softmax of fragments ----------*- C++ -*-===//
//
// Four neighbouring lanes hold a row of scores. Each keeps the maximum of the
// row and the sum of its own probabilities; sums come together at the end.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSOFTMAX_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSOFTMAX_H

#include "codegen/CUDA/Sm80/FragmentScores.h"

namespace sextant::codegen {

/// Probabilities are relative to a shift of the row, at most 2^8, and their sum
/// is f32. The shift is a maximum so far: it follows when it is left behind by
/// more than 8, so that what has been summed up is seldom scaled (the same step
/// is in FlashAttention-4). As operands of f16 those below 2^-14 have fewer
/// bits, and are off by 2^-25 at most: far less than what the rounding of the
/// largest is off by.
class FragmentSoftmax {
public:
  using Values = KernelBuilder::Values;

  /// Of each row of the thread: the maximum that it is shifted by, in units of
  /// the scores, and its sum.
  struct State {
    Values maxima, sums;
  };

  FragmentSoftmax(ThreadBuilder &thread, const ScoreTile &tile,
                  const FragmentForm &form)
      : thread(thread), kernel(thread.kernel), tile(tile), form(form) {}

  State begin();
  /// What has been summed up is to be scaled by: a factor per row, and whether
  /// any of the warp is not 1 (i1, the same in all its lanes).
  struct Scaling {
    Values factors;
    mlir::Value isNeeded;
  };
  /// Makes scores probabilities, each with `addend` added to it (null: none);
  /// calls `scale` on the way.
  void update(State &state, Values &scores, mlir::Value addend,
              llvm::function_ref<void(const Scaling &)> scale);

  /// A row when all keys have been: what its scores in base 2 were shifted by,
  /// the sum of their exponentials, and whether it has seen a key (i1).
  struct Row {
    mlir::Value shift, sum, isLive;
  };
  llvm::SmallVector<Row> finish(const State &state);

private:
  /// The numbers of the scores of a row.
  llvm::SmallVector<unsigned> getScores(int64_t row) const;
  double getLowest() const;
  mlir::Value getShift(mlir::Value maximum);
  mlir::Value
  acrossRow(mlir::Value value,
            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  const ScoreTile &tile;
  const FragmentForm &form;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSOFTMAX_H
