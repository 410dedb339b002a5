//===- FragmentProducts.h - Products of a tile on tensor cores --*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H

#include "codegen/CUDA/Sm80/ForwardTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// The products of a tile: rows of Q times rows of K, and probabilities times
/// rows of V. Sums are [block][8 columns][element].
class FragmentProducts {
public:
  using Values = KernelBuilder::Values;

  FragmentProducts(ThreadBuilder &thread, const ForwardTile &tile);

  /// Q K^T of the warp's queries and the keys of a stage.
  Values multiplyKeys(mlir::Value stage);
  /// Adds probabilities times the rows of value `number` to `output`.
  void addValues(mlir::Value stage, unsigned number,
                 mlir::ValueRange probabilities,
                 llvm::MutableArrayRef<mlir::Value> output);

private:
  /// Adds the products of the blocks with a pair of right operands.
  void multiplyPair(llvm::ArrayRef<Values> left, mlir::ValueRange right,
                    int64_t columns, int64_t pair,
                    llvm::MutableArrayRef<mlir::Value> sums);
  llvm::SmallVector<Values> toOperand(mlir::ValueRange probabilities,
                                      int64_t first);

  ThreadBuilder &thread;
  const ForwardTile &tile;
  mlir::Value queries; ///< address of the row that the thread names
  mlir::Value keyRow, keyChunk, valueRow, valueChunk; ///< likewise, in a stage
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPRODUCTS_H
