//===- TurnRows.h - Rows times exponentials, ahead of a kernel --*- C++ -*-===//
//
// Written once for every target. A `pos.turn_rows` is a launch of its own
// before the kernels of the attention, which see rows that have turned already;
// after the kernels of the backward, another one turns the gradients of these
// rows back. An item makes the matrix of a position and its exponential in
// scratch memory and multiplies all rows that share it, those of query and of
// key where the coordinates are the same:
//
// | launch        | items                          | per item              |
// |---------------|--------------------------------|-----------------------|
// | turn          | (batch', head', row)           | exp(A) x              |
// | turn pullback | ranges of rows                 | exp(A)^T dy, and the  |
// |               |                                | gradients behind A    |
// | turn sum      | elements of a parameter        | sum over the ranges   |
//
// batch' and head' are 1 where A does not vary with them (given positions: the
// batch of these). Rows are counted from the end, as many as the longer operand
// has. Nothing quadratic and no table of matrices is kept.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_TURNROWS_H
#define SEXTANT_CODEGEN_TABLES_TURNROWS_H

#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/ParamSums.h"

namespace sextant::codegen {

/// The turns of one attention, or of its gradient.
class TurnedRows {
public:
  explicit TurnedRows(const Lowering &lowering)
      : lowering(lowering), params(lowering) {}

  /// Launches the turns and makes the turned rows operands of the op.
  void apply();

  /// Of the results of a backward kernel, makes the gradients of the rows those
  /// before the turns, and adds to gradients of parameters. Does nothing for a
  /// forward.
  void pullBack(llvm::MutableArrayRef<mlir::Value> results);

private:
  void launchTurn(size_t number, mlir::ValueRange outputs);
  /// Replaces the gradients of query and key rows.
  void launchPullback(size_t number, llvm::MutableArrayRef<mlir::Value> rows);
  mlir::Value allocatePulled(size_t number, size_t operand,
                             mlir::Value gradient);
  mlir::Value countRows(size_t number) const;
  unsigned addSums(size_t number, PointLayout &layout,
                   LaunchOperands &operands);

  const Lowering &lowering;
  /// By turn of the plan and operand of the turn.
  llvm::SmallVector<llvm::SmallVector<mlir::Value, 2>> inputs;
  ParamSums params;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_TURNROWS_H
