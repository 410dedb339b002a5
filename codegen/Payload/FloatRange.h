//===- FloatRange.h - Ranges of floating-point values -----------*- C++ -*-===//
//
// Part of the classes of tiles (MaskTiles.h). A range with a NaN says nothing:
// the value may be anything, NaN too. A range without one holds no NaN.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_FLOATRANGE_H
#define SEXTANT_CODEGEN_PAYLOAD_FLOATRANGE_H

#include "dialects/Pos/IR/TileRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace sextant::codegen {

/// Whether a comparison is certainly, and whether it is possibly, true.
pos::ValueRange32 emitFloatCompare(mlir::OpBuilder &builder, mlir::Location loc,
                                   mlir::arith::CmpFPredicate predicate,
                                   pos::ValueRange32 a, pos::ValueRange32 b);

/// The range of an op with an f32 result whose operands have known ranges:
/// operations that are monotonic, and so is their rounding. Unknown for others
/// and for those that a flag allows to round otherwise.
pos::ValueRange32 emitFloatRange(mlir::OpBuilder &builder, mlir::Operation *op,
                                 llvm::ArrayRef<pos::ValueRange32> operands);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_FLOATRANGE_H
