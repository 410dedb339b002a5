//===- VectorArithmetic.h - Floating point in place of calls ----*- C++ -*-===//
//
// What elementary functions of vectors of f32 or f64 are made of: arithmetic
// without flags, polynomials, whole numbers and powers of two by their bits.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_VECTORARITHMETIC_H
#define SEXTANT_CODEGEN_EMIT_VECTORARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace sextant::codegen {

/// Writes arithmetic on vectors of one type.
class VectorArithmetic {
public:
  VectorArithmetic(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::VectorType type);

  bool isDouble() const { return type.getElementType().isF64(); }

  mlir::Value constant(double value);
  mlir::Value integer(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value neg(mlir::Value a);
  mlir::Value abs(mlir::Value a);
  mlir::Value copySign(mlir::Value magnitude, mlir::Value sign);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// Within [low, high]; NaN stays NaN.
  mlir::Value clamp(mlir::Value x, double low, double high);
  /// coefficients[0] + x (coefficients[1] + x (...)).
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);

  /// The nearest whole number, as a float and as an integer; |x| < 2^20.
  std::pair<mlir::Value, mlir::Value> nearest(mlir::Value x);
  /// 2^n for an exponent in the normal range.
  mlir::Value powerOfTwo(mlir::Value n);
  /// x 2^n for any n in twice the normal range.
  mlir::Value scale(mlir::Value x, mlir::Value n);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::VectorType type, integerType;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_VECTORARITHMETIC_H
