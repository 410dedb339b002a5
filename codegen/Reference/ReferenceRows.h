//===- ReferenceRows.h - Row maps and columns, in and out -------*- C++ -*-===//
//
// Internal to codegen/Reference: what row maps and appended columns make of the
// rows of an operand, and what becomes of the gradients of these.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEROWS_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEROWS_H

#include "codegen/Reference/ReferencePoint.h"

namespace sextant::codegen {

/// Applies row maps to a row in place. The point stands at the row.
void mapRow(ReferenceBuilder &r, llvm::ArrayRef<RowMap> maps,
            const Matrix &matrix, Index row);
/// Turns the gradient of the mapped row into that of the row as it was, which
/// `original` holds; `work` has room for one row.
void pullRow(ReferenceBuilder &r, llvm::ArrayRef<RowMap> maps,
             const Matrix &gradient, Index row, const Matrix &original,
             const Matrix &work);

/// Rows of an operand of an attention behind its row maps, with the columns
/// appended to them, and room for their gradient.
struct OperandRows {
  pos::RowOperand operand;
  unsigned tensor;
  Matrix rows, gradient = {}; ///< without a base if it is not wanted
  Matrix original = {}, work = {};
};

/// Room for `count` rows.
OperandRows allocateRows(ReferenceBuilder &r, pos::RowOperand operand,
                         unsigned tensor, Index count, bool wantsGradient);
/// Loads the row tensor[batch, head, row] to row `to`, and clears its gradient.
void loadMapped(ReferenceBuilder &r, const OperandRows &rows, Index batch,
                Index head, Index row, Index to);
/// Pulls the gradient of row `from` back through the maps, adds that of the row
/// past its maps, and stores it at tensor[batch, head, row].
void storePulled(ReferenceBuilder &r, const OperandRows &rows, unsigned tensor,
                 llvm::ArrayRef<Index> place, Index from,
                 const Matrix *unmapped = nullptr);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEROWS_H
