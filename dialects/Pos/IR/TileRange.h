//===- TileRange.h - The range of a value over a tile -----------*- C++ -*-===//
//
// A mask is evaluated over intervals to find tiles that it leaves empty or
// whole. This file holds the interval arithmetic, which is emitted as code.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_TILERANGE_H
#define SEXTANT_DIALECTS_POS_IR_TILERANGE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace sextant::pos {

/// Smallest and largest value over a tile, both included: values of the
/// emitted code. Null values mean that nothing is known.
///
/// | value | low, high                                                       |
/// |-------|-----------------------------------------------------------------|
/// | i1    | i1: certainly true, possibly true                               |
/// | i32   | i32; both fit into `bits` bits, so that sums of small numbers   |
/// |       | need no check for wrapping; below 32, so do their negatives     |
/// | f32   | f32; NaN in either: the value may be anything, NaN too          |
struct ValueRange32 {
  mlir::Value low, high;
  unsigned bits = 32;

  bool known() const { return low && high; }
};

/// Bits of an index, an extent or a count of heads: lengths are below 2^29.
inline constexpr unsigned indexBits = 30;

// Integers that wrap as arith's do: where a value of the range may wrap, the
// result is all of i32.
ValueRange32 emitSum(mlir::OpBuilder &builder, mlir::Location loc,
                     ValueRange32 a, ValueRange32 b);
ValueRange32 emitDifference(mlir::OpBuilder &builder, mlir::Location loc,
                            ValueRange32 a, ValueRange32 b);
ValueRange32 emitProduct(mlir::OpBuilder &builder, mlir::Location loc,
                         ValueRange32 a, ValueRange32 b);
ValueRange32 emitAbsolute(mlir::OpBuilder &builder, mlir::Location loc,
                          ValueRange32 a);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_TILERANGE_H
