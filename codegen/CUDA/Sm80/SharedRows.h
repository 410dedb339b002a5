//===- SharedRows.h - Rows of an operand in shared memory -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_SHAREDROWS_H
#define SEXTANT_CODEGEN_CUDA_SM80_SHAREDROWS_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Emit/KernelFunction.h"

namespace sextant::codegen {

/// How many words to copy, and by how many threads; `own` (i32) counts them.
struct WordCount {
  int64_t words, threads;
  mlir::Value own;
};
/// Begins to copy words of 32 bits to shared memory, by some threads of a
/// block. Those from number `given` (i32) on are zero, if it is not null.
void copyWords(ThreadBuilder &thread, mlir::Value from, mlir::Value to,
               WordCount count, mlir::Value given = {});

/// Copies rows of 16-bit elements of one head of an operand [B, H, L, dim] to
/// shared memory, by all threads of a block. Rows that are aligned to 16 bytes
/// are copied while the block computes; others, of any stride, element by
/// element. Rows past the end and lanes past the last one are zero.
class SharedRows {
public:
  /// Before all loops: says how the operand lies in memory.
  SharedRows(ThreadBuilder &thread, ArgumentBlock &arguments, unsigned tensor,
             SharedRowShape shape, int64_t threads);

  void enterHead(Index batch, Index head);
  /// `rows` rows from `first` on, to the address `to`.
  void copy(mlir::Value first, int64_t rows, mlir::Value to);
  /// Rows of one batch element to the address `to`, each of a head of its own:
  /// `find` gives that and the number of the row in it (i32).
  void copyOfHeads(
      Index batch, int64_t rows, mlir::Value to,
      llvm::function_ref<std::pair<Index, mlir::Value>(mlir::Value)> find);
  /// The same as `copy`, where rows are aligned and all of them exist.
  void copyWhole(mlir::Value first, int64_t rows, mlir::Value to) {
    copyAligned(first, rows, to, /*areWhole=*/true);
  }
  /// Whether rows are aligned, an i1.
  mlir::Value getAligned() const { return isAligned; }

private:
  void copyAligned(mlir::Value first, int64_t rows, mlir::Value to,
                   bool areWhole);
  void copyElements(mlir::Value first, int64_t rows, mlir::Value to);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  unsigned tensor;
  SharedRowShape shape;
  int64_t threads;
  mlir::Value isAligned, length;
  mlir::Value row, chunk; ///< that the thread copies first
  mlir::Value given;      ///< bytes of that chunk
  mlir::Value head;       ///< address of the head
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_SHAREDROWS_H
