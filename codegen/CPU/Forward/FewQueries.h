//===- FewQueries.h - Products of a few queries -----------------*- C++ -*-===//
//
// A panel of queries is as wide as a register tile, so that few queries, as of
// a step of decoding, would leave most of its lanes empty. Their products have
// elements of rows as lanes instead: a score is a dot product of two rows, and
// the output a sum of rows of V. A query costs what its products cost, and one
// alone waits for memory. Scores are then turned, since what lies between the
// two products (payload, mask, softmax) has queries as lanes. An item has some
// heads that share keys (HeadRuns.h), each with a panel of its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FEWQUERIES_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FEWQUERIES_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// Stores the first `elements` of a vector of rows, multiplied by `factor`, and
/// zeros up to `stride`, which is a number of vectors.
void packRows(KernelBuilder &kernel, llvm::ArrayRef<mlir::Value> rows,
              int64_t elements, int64_t stride, mlir::Value to, double factor);

/// The products of a group of keys, whose rows begin at `keys`, with the
/// queries of the panel, whose rows begin at `query`: a vector of queries for
/// each key. `square` has room for a vector per lane; rows of it that belong to
/// no query are left as they are.
KernelBuilder::Values emitDots(const ForwardItem &item, mlir::Value keys,
                               mlir::Value query, mlir::Value square);

/// output[q] = output[q] * alpha[q] + sum of rows [low, high) of `values`, each
/// times its score of the query. `alphas` is memory of a vector.
void addWeightedRows(const ForwardItem &item, mlir::Value values,
                     mlir::Value alpha, mlir::Value alphas, Index low,
                     Index high);

/// Stores the output of the panel's queries, divided by the sums.
void storeWeightedRows(const ForwardItem &item);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FEWQUERIES_H
