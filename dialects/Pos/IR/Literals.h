//===- Literals.h - Numbers that f32 does not hold --------------*- C++ -*-===//
//
// f32 in a definition means the compute type (C1), which may be f64. A constant
// then means the number as it is written: where f32 rounds it, the discardable
// attribute `pos.exact` keeps it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_LITERALS_H
#define SEXTANT_DIALECTS_POS_IR_LITERALS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace sextant::pos {

/// Keeps `exact`, of f64, beside the value of a constant or an option, unless
/// both are the same number.
void keepExact(mlir::Operation *op, mlir::TypedAttr value,
               mlir::TypedAttr exact);

/// What is kept beside the value of an op, of f64; null if that is exact.
mlir::TypedAttr getExact(mlir::Operation *op);

/// A constant of `type`. A number of f64 for a type of f32 is rounded and kept.
mlir::Value createConstant(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Type type, mlir::TypedAttr value);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_LITERALS_H
