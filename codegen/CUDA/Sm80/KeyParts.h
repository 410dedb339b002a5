//===- KeyParts.h - Parts of a block with keys of their own -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_KEYPARTS_H
#define SEXTANT_CODEGEN_CUDA_SM80_KEYPARTS_H

#include "codegen/CUDA/Sm80/FragmentOutput.h"

namespace sextant::codegen {

/// Joins what the parts of a block have of the same queries, each of its own
/// keys: half of them give theirs to others, until one has all.
class KeyParts {
public:
  using Values = KernelBuilder::Values;
  using Row = FragmentSoftmax::Row;

  KeyParts(ThreadBuilder &thread, int64_t parts)
      : thread(thread), kernel(thread.kernel), parts(parts) {}

  /// In the first part `rows` of the thread and its `sums` become those of all
  /// keys; in the others they mean nothing. All copies are there.
  void join(llvm::SmallVector<Row> &rows, Values &sums,
            const FragmentOutput &output);

private:
  void joinWith(int64_t further, llvm::SmallVector<Row> &rows, Values &sums,
                const FragmentOutput &output);
  mlir::Value getWord(mlir::Value further, unsigned number);
  std::pair<mlir::Value, mlir::Value> joinRow(Row &own, mlir::Value shift,
                                              mlir::Value sum);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  int64_t parts;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_KEYPARTS_H
