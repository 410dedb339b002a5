//===- PiecewiseLinearTable.h - Tables of piecewise-linear functions ------===//
//
// Before an attention kernel runs, one launch per `pos.hinges` makes a table of
// its function for every head of every element of the batch; after a backward
// kernel has filled the moments, one launch turns them into gradients of
// parameters. Everything in between two values of f32 is f64.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_PIECEWISELINEARTABLE_H
#define SEXTANT_CODEGEN_TABLES_PIECEWISELINEARTABLE_H

#include "codegen/Tables/ParamSums.h"

namespace sextant::codegen {

/// One row of a table [B, H, size] x f32. With n units there are n knots in
/// ascending order and n + 1 segments: x lies in segment s if it is above s
/// knots. A unit whose a is 0, or whose knot is NaN, has none: its knot is
/// infinite and jumps by 0.
struct PiecewiseLinearLayout {
  /// Columns are padded to vectors of `lanes`.
  PiecewiseLinearLayout(pos::HingesOp op, int64_t lanes);

  int64_t units;
  int64_t knots;      ///< [padded units]
  int64_t jumps;      ///< of the slope at each knot, upwards [padded units]
  int64_t slopes;     ///< [units + 1]
  int64_t intercepts; ///< [units + 1]
  int64_t size;

  /// Moments of a function's cotangents, [4][units + 1] x f64: the sum of
  /// cotangents and that of their products with x. `segments` takes those of
  /// points that lie above a number of knots at least, `knots` those of the
  /// points that lie above a knot all the same: what passes knot k (from 0) is
  /// knots[k] and the sum of segments[k + 1] and all after it. A point on a
  /// knot counts one half.
  enum Moment { segmentSum, segmentProduct, knotSum, knotProduct };
  int64_t getMoment(Moment moment) const { return moment * (units + 1); }
  int64_t countMoments() const { return 4 * (units + 1); }
};

/// Creates the tables, as plan.hinges, the launches that fill them and their
/// kernels. `bounds`: see HoistTables.
llvm::SmallVector<mlir::Value>
launchPiecewiseLinearTables(const Lowering &lowering, mlir::Value bounds);

/// Creates the launches that add to the gradients of parameters what follows
/// from `moments` ([B, H, countMoments] x f64, one per plan.hinges, null where
/// not wanted). Deterministic: an item is a range of heads, in order.
void launchPiecewiseLinearPullbacks(const Lowering &lowering,
                                    mlir::Value bounds,
                                    llvm::ArrayRef<mlir::Value> moments,
                                    ParamSums &params);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_PIECEWISELINEARTABLE_H
