//===- FragmentOutput.h - The output that a thread holds --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H

#include "codegen/CUDA/Sm80/ForwardOperands.h"
#include "codegen/CUDA/Sm80/FragmentRows.h"
#include "codegen/CUDA/Sm80/FragmentSoftmax.h"

namespace sextant::codegen {

/// Sums of probabilities times values, [value][block][8 columns][element].
class FragmentOutput {
public:
  using Values = KernelBuilder::Values;

  FragmentOutput(ThreadBuilder &thread, ArgumentBlock &arguments,
                 FragmentPoint &point, const ForwardOperands &launch)
      : thread(thread), kernel(thread.kernel), arguments(arguments),
        point(point), launch(launch) {
    for (const SharedRowShape &shape : launch.tile.values)
      rows.emplace_back(thread, launch.tile.blocks, shape, point.column);
  }

  /// Stores nothing where `isOwn` (i1) does not hold.
  void enterHead(mlir::Value isOwn) { isStored = isOwn; }
  unsigned countSums() const { return getFirst(rows.size()); }
  /// Those of a value.
  llvm::MutableArrayRef<mlir::Value>
  getSums(llvm::MutableArrayRef<mlir::Value> all, unsigned value) const {
    return all.slice(getFirst(value), getFirst(value + 1) - getFirst(value));
  }
  /// Which of the thread's rows a sum is of.
  unsigned getRow(unsigned number) const;
  /// Multiplies each row of the thread with its factor where that is needed.
  void scale(llvm::MutableArrayRef<mlir::Value> sums,
             const FragmentSoftmax::Scaling &scaling);

  /// Stores the results of the rows of the thread that exist, of a head.
  void store(Index batch, Index head, mlir::ValueRange sums,
             llvm::ArrayRef<FragmentSoftmax::Row> softmaxes);

  /// Likewise of some of the keys, for others to join.
  void storeSplit(Index split, Index batch, Index head, mlir::ValueRange sums,
                  llvm::ArrayRef<FragmentSoftmax::Row> softmaxes);

private:
  /// Calls `body` for each row of the thread that exists.
  void forRows(llvm::ArrayRef<FragmentSoftmax::Row> softmaxes,
               llvm::function_ref<void(int64_t row, Index query,
                                       const FragmentSoftmax::Row &softmax)>
                   body);
  unsigned getFirst(unsigned value) const;
  void storeStatistics(Index batch, Index head, Index query,
                       const FragmentSoftmax::Row &softmax);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  const ForwardOperands &launch;
  mlir::Value isStored;
  llvm::SmallVector<FragmentRows, 2> rows; ///< per value
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOUTPUT_H
