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

/// Probabilities are relative to the maximum so far, between 0 and 1, and their
/// sum is f32. As operands of f16 those below 2^-14 have fewer bits, and are
/// off by 2^-25 at most: far less than what the rounding of the largest is off
/// by.
class FragmentSoftmax {
public:
  using Values = KernelBuilder::Values;

  /// Of each row of the thread: its maximum, in units of the scores, and its
  /// sum.
  struct State {
    Values maxima, sums;
  };

  FragmentSoftmax(ThreadBuilder &thread, const ScoreTile &tile,
                  const FragmentForm &form)
      : thread(thread), kernel(thread.kernel), tile(tile), form(form) {}

  State begin();
  /// Makes scores probabilities; gives, per row, the factor of what was summed
  /// up before.
  Values update(State &state, Values &scores);

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
