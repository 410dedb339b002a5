//===- AllHeadsRows.h - Rows of all heads in shared memory ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSROWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSROWS_H

#include "codegen/CUDA/Sm80/SharedRows.h"

namespace sextant::codegen {

/// 16 rows of each head of an operand, one head after the other.
class AllHeadsRows {
public:
  /// At the start of the function. There is room for those of so many heads.
  AllHeadsRows(ThreadBuilder &thread, ArgumentBlock &arguments, unsigned tensor,
               SharedRowShape shape, int64_t heads, int64_t threads)
      : thread(thread), heads(heads),
        rows(thread, arguments, tensor, shape, threads) {}

  /// Begins to copy rows from `first` (i32) on, of the first `count` heads.
  void copy(Index batch, mlir::Value first, mlir::Value to, Index count);

private:
  ThreadBuilder &thread;
  int64_t heads;
  SharedRows rows;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSROWS_H
