//===- OnlineSoftmax.h - The softmax, block by block of keys ----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_ONLINESOFTMAX_H
#define SEXTANT_CODEGEN_CPU_FORWARD_ONLINESOFTMAX_H

#include "codegen/CPU/Forward/RowBuckets.h"

namespace sextant::codegen {

/// Keeps maximum m and sum l of the queries of an item, from block to block:
///
///   m' = max(m, S); alpha = exp2(m - m'); P = exp2(S - m')
///   l' = l * alpha + sum of P
class OnlineSoftmax {
public:
  OnlineSoftmax(ForwardItem &item, RowBuckets &buckets);

  /// The vector of queries at `lane` of the panel has seen no key.
  void clear(Index lane);
  /// The maxima of the panel, before the block.
  KernelBuilder::Values loadMaxima();
  /// Takes the keys [low, high) of the block in, with which maxima are as
  /// given: P replaces the scores. Gives alpha, which `rescale` takes as soon
  /// as it is known.
  KernelBuilder::Values
  update(mlir::ValueRange maxima, Index low, Index high,
         llvm::function_ref<void(mlir::ValueRange alpha)> rescale = nullptr);
  /// Stores the log-sum-exp of the panel's queries, and what the backward needs
  /// of them. The inverse sum replaces the sum, zero where no key was seen.
  void store();

private:
  KernelBuilder::Values addWeights(Index low, Index high, int64_t first,
                                   mlir::ValueRange shift);
  void storePairs(mlir::ValueRange weights, Index pair);

  ForwardItem &item;
  KernelBuilder &kernel;
  const ForwardLaunch &launch;
  RowBuckets &buckets;
  int64_t results; ///< for the backward: two per query, in scratch memory
};

/// The maximum of vectors, as a tree: short chains.
mlir::Value emitMaximum(KernelBuilder &kernel, KernelBuilder::Values vectors);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_ONLINESOFTMAX_H
