//===- VectorFunctions.h - Elementary functions on vectors ------*- C++ -*-===//
//
// Arithmetic for the functions of `math` on vectors of f32 and f64 (f16 and
// bf16 have none): no call, no branch, any number of lanes. One code serves
// both types; series are as long as the type needs. Largest errors over the
// stated ranges, in units in the last place, tested by VectorMathTest:
//
// | function            | f32 | f64 | range                                  |
// |---------------------|-----|-----|----------------------------------------|
// | exp, exp2           |   2 |   2 | all                                    |
// | expm1               |   3 |   3 | all                                    |
// | log, log2, log10    |   3 |   3 | all, denormals included                |
// | log1p               |   3 |   3 | all                                    |
// | tanh, sinh, cosh    |   4 |   4 | all                                    |
// | asinh, acosh, atanh |   6 |   6 | all                                    |
// | sin, cos            |   1 |   2 | |x| <= 1e6; ulp of 1 near their zeros  |
// | tan                 |   1 |   4 | |x| <= 1e6, away from its poles        |
// | powf                |   1 | 160 | results of 1e-37 to 1e37 (the error    |
// |                     |     |     | grows with the result's exponent)      |
//
// f32 sin, cos, tan and powf compute in f64. Infinities, zeros and NaNs are
// those of libm, but for powf with an infinite exponent.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_VECTORFUNCTIONS_H
#define SEXTANT_CODEGEN_EMIT_VECTORFUNCTIONS_H

#include "codegen/Emit/VectorArithmetic.h"

namespace sextant::codegen {

/// Writes functions of vectors of one type.
class VectorFunctions : VectorArithmetic {
public:
  using VectorArithmetic::VectorArithmetic;

  mlir::Value exp(mlir::Value x);
  mlir::Value exp2(mlir::Value x);
  mlir::Value expm1(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value log2(mlir::Value x);
  mlir::Value log10(mlir::Value x);
  mlir::Value log1p(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value sinh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value atanh(mlir::Value x);
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value tan(mlir::Value x);
  mlir::Value pow(mlir::Value x, mlir::Value y);
  /// Halves away from zero.
  mlir::Value round(mlir::Value x);

private:
  /// (e^r - 1) for |r| <= ln(2) / 2.
  mlir::Value expm1Reduced(mlir::Value r);
  /// x = n ln 2 + r: n as float and integer, and r.
  struct Reduced {
    mlir::Value whole, number, rest;
  };
  Reduced reduceExp(mlir::Value x);
  /// log m and the exponent of a positive x = m 2^exponent.
  struct Logarithm {
    mlir::Value logMantissa, exponent;
  };
  Logarithm splitLog(mlir::Value x);
  /// The logarithm's value at 0, below, at infinity and NaN; else `value`.
  mlir::Value logAtEnds(mlir::Value x, mlir::Value value);
  /// sin and cos of x and the quadrant, in f64.
  std::pair<mlir::Value, mlir::Value> sinCos(mlir::Value x);
  /// The same functions in f64, and the conversion of a result from it.
  VectorFunctions inDouble();
  mlir::Value fromDouble(mlir::Value x);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_VECTORFUNCTIONS_H
