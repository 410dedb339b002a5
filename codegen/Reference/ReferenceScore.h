//===- ReferenceScore.h - The score of a pair and its row -------*- C++ -*-===//
//
// Internal to codegen/Reference: what sites make of the scaled product of a
// pair of rows, what a row of scores gives, and weighted rows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCESCORE_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCESCORE_H

#include "codegen/Reference/ReferenceLaunch.h"

namespace sextant::codegen {

/// Room for what contextual ops know of a row of `keys` keys, and the number of
/// elements that it takes.
ContextualRow allocateContextual(ReferenceBuilder &r, Index width, Index keys);
Index countContextual(KernelBuilder &kernel, const KernelPlan &plan,
                      Index width, Index keys);
/// Key number `step` of the row in the direction of its scans.
Index toKey(ReferenceBuilder &r, Index step, Index keys);

/// Whether the key at hand is seen; null: it is.
mlir::Value isVisible(ReferenceBuilder &r);
/// A score after the payload, minus infinity where it is not `visible`.
mlir::Value hide(ReferenceBuilder &r, mlir::Value score, mlir::Value visible);
/// The score before the softmax: minus infinity where hidden. `raw` is the
/// scaled product.
mlir::Value finalScore(ReferenceBuilder &r, mlir::Value raw);

/// A row of scores and the rows of values that it weights.
struct ScoreRow {
  Index batch, head, row;
  Matrix scores;
  Index inScores;
  llvm::ArrayRef<OperandRows> values;
  Index firstValue; ///< among the rows of `values`
  llvm::ArrayRef<Matrix> outputs;
};
/// The softmax of a row with the greatest score `largest`: stores outputs and
/// statistics (the greatest score and the sum of exponentials), and gives
/// whether no key is visible and, if one is, the log-sum-exp.
std::pair<mlir::Value, mlir::Value> emitSoftmax(ReferenceBuilder &r,
                                                const AttentionTensors &tensors,
                                                const ScoreRow &of,
                                                mlir::Value largest);

/// In a backward: exp(score - shift) / sum, with the statistics of the row.
mlir::Value emitWeight(ReferenceBuilder &r, const AttentionTensors &tensors,
                       Index batch, Index head, Index row, mlir::Value score);
/// sum(do * o) - dlse of a row; loads the gradients of its outputs to row `to`
/// of `seeds`.
mlir::Value loadDelta(ReferenceBuilder &r, const AttentionTensors &tensors,
                      Index batch, Index head, Index row,
                      llvm::ArrayRef<Matrix> seeds, Index to);

/// The product of `row` with the row of the table of a `pos.weighted_rows` at
/// the pair where the point stands.
mlir::Value dotWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                        const Matrix &row);
/// The table's gradient += factor * row.
void addToWeighted(ReferenceBuilder &r, pos::WeightedRowsOp op,
                   const Matrix &row, mlir::Value factor);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCESCORE_H
