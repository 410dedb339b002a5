//===- RowBuckets.h - Rows of tables weighted by probabilities --*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_ROWBUCKETS_H
#define SEXTANT_CODEGEN_CPU_FORWARD_ROWBUCKETS_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// Sums the weights of a query's keys per row of a table (`pos.weighted_rows`),
/// in buckets that are rescaled with the softmax; the rows are added to the
/// output once, weighted by the buckets. Buckets lie behind all other scratch
/// memory, one table after the other: [panels][rows of the table][panel].
class RowBuckets {
public:
  explicit RowBuckets(ForwardItem &item)
      : item(item), kernel(item.kernel), launch(item.launch),
        lanes(item.layout.reserve(2 * kernel.width())) {}

  /// The place behind the buckets of the first `count` tables.
  static Index getEnd(KernelBuilder &kernel, ArgumentBlock &arguments,
                      const ForwardLaunch &launch, const ScratchLayout &layout,
                      size_t count);

  /// Clears the buckets of all panels of the item.
  void clear();
  /// buckets *= alpha, for a new running maximum.
  void scale(mlir::ValueRange alpha);
  void add(Index keyInBlock, int64_t vector, mlir::Value weights);
  /// O^T += table^T times buckets.
  void addToOutput();

private:
  using Body =
      llvm::function_ref<void(size_t number, Index rows, mlir::Value buckets)>;
  /// Calls `body` for each table, with its buckets of a panel.
  void forEach(Index panel, Body body);

  ForwardItem &item;
  KernelBuilder &kernel;
  const ForwardLaunch &launch;
  int64_t lanes; ///< two vectors of scratch memory
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_ROWBUCKETS_H
