//===- PiecewiseLinearUnits.h - Units of a piecewise-linear function ------===//
//
// A unit w max(a x + b, 0) has its knot at -b/a and is a line on one side of
// it, above it where a is positive. The factors `above` and `below` say with
// what weight it counts on either side: 1 and 0, 0 and 1, or, without a knot,
// the same on both: 1, 1/2 or 0 as b is positive, zero or negative. Products
// with the factor 0, not choices, so that a NaN stays.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_PIECEWISELINEARUNITS_H
#define SEXTANT_CODEGEN_TABLES_PIECEWISELINEARUNITS_H

#include "codegen/Tables/HeadPoint.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace sextant::codegen {

/// The units of one function at one head, in scratch memory.
class PiecewiseLinearUnits {
public:
  enum Column { weight, slope, offset, above, below, knot, rank };
  static constexpr int64_t numColumns = 7;

  PiecewiseLinearUnits(KernelBuilder &k, pos::HingesOp op, mlir::Value memory)
      : k(k), op(op), memory(memory), count(op.getNumUnits()),
        f64(k.builder.getF64Type()) {}

  /// Fills the memory. Gives the sums of the coefficients p and q.
  KernelBuilder::Values emit(HeadPoint &point);

  mlir::Value get(Column column, Index unit) {
    return k.load(f64, getAddress(column, unit));
  }
  Index getRank(Index unit) {
    return Index(k.load(k.i64, getAddress(rank, unit)));
  }
  mlir::Value constant(double value) {
    return k.constant(k.builder.getF64FloatAttr(value));
  }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return mlir::arith::AddFOp::create(k.builder, k.loc, a, b);
  }
  mlir::Value sub(mlir::Value a, mlir::Value b) {
    return mlir::arith::SubFOp::create(k.builder, k.loc, a, b);
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return mlir::arith::MulFOp::create(k.builder, k.loc, a, b);
  }

  KernelBuilder &k;
  pos::HingesOp op;
  mlir::Value memory;
  int64_t count;
  mlir::Type f64;

private:
  mlir::Value getAddress(Column column, Index unit) {
    return k.advance(memory, {unit, column * count}, f64);
  }
  void emitUnit(Index unit, mlir::ValueRange coefficients);
  void emitRanks(Index first);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_PIECEWISELINEARUNITS_H
