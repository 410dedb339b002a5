//===- FragmentOutput.h - The output that a thread holds --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H

#include "codegen/CUDA/Sm80/FragmentSoftmax.h"

namespace sextant::codegen {

/// Sums of probabilities times values, [value][block][8 columns][element].
class FragmentOutput {
public:
  using Values = KernelBuilder::Values;

  FragmentOutput(ThreadBuilder &thread, ArgumentBlock &arguments,
                 FragmentPoint &point, const ForwardOperands &launch)
      : thread(thread), kernel(thread.kernel), arguments(arguments),
        point(point), launch(launch) {}

  unsigned countSums() const { return getFirst(launch.tile.values.size()); }
  /// Those of a value.
  llvm::MutableArrayRef<mlir::Value>
  getSums(llvm::MutableArrayRef<mlir::Value> all, unsigned value) const {
    return all.slice(getFirst(value), getFirst(value + 1) - getFirst(value));
  }
  /// Multiplies each row of the thread with its factor.
  void scale(llvm::MutableArrayRef<mlir::Value> sums, mlir::ValueRange factors);

  /// Stores the results of the rows of the thread that exist, of a head.
  void store(Index batch, Index head, mlir::ValueRange sums,
             llvm::ArrayRef<FragmentSoftmax::Row> rows);

  /// Likewise of some of the keys, for others to join.
  void storeSplit(Index split, Index batch, Index head, mlir::ValueRange sums,
                  llvm::ArrayRef<FragmentSoftmax::Row> rows);

private:
  /// Calls `body` for each row of the thread that exists.
  void forRows(llvm::ArrayRef<FragmentSoftmax::Row> rows,
               llvm::function_ref<void(int64_t row, Index query,
                                       const FragmentSoftmax::Row &softmax)>
                   body);
  /// Calls `body` for each two neighbouring elements of a row, with the first
  /// one's column in the value, as far as it is known.
  void forPairs(mlir::ValueRange sums, int64_t row,
                llvm::function_ref<void(unsigned value, int64_t columns,
                                        mlir::Value low, mlir::Value high)>
                    body);
  /// Calls `body` where the element of a row of `dim` exists.
  void whereColumn(int64_t columns, int64_t dim,
                   llvm::function_ref<void()> body);
  unsigned getFirst(unsigned value) const;
  void storeWord(mlir::Value word, mlir::Value to, int64_t columns,
                 int64_t dim);
  void storeStatistics(Index batch, Index head, Index query,
                       const FragmentSoftmax::Row &softmax);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  const ForwardOperands &launch;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H
