//===- VectorBuilder.h - Vectors of kernels ---------------------*- C++ -*-===//
//
// The layer of KernelBuilder for vectors of one width: lanes, and
// floating-point arithmetic on scalars and vectors.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_VECTORBUILDER_H
#define SEXTANT_CODEGEN_EMIT_VECTORBUILDER_H

#include "codegen/Emit/ScalarBuilder.h"

namespace sextant::codegen {

/// Writes vectors of `width` lanes, and floating point.
class VectorBuilder : public ScalarBuilder {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  VectorBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Block &entry, int64_t width);

  mlir::VectorType vf32, vf64, vi32, vi1;

  int64_t width() const { return lanesOfVector; }

  //===--- Lanes ---------------------------------------------------------===//

  /// The same value in all lanes.
  mlir::Value splatF32(double value);
  mlir::Value splatI32(int32_t value);
  /// The scalar in all lanes (of any element type); vectors pass through.
  mlir::Value broadcast(mlir::Value scalar);
  /// base, base + 1, ... as a vector of i32.
  mlir::Value lanes(Index base);
  /// Lanes below `count` as a vector of i1.
  mlir::Value lanesBelow(Index count);
  mlir::Value shuffle(mlir::Value a, mlir::Value b,
                      llvm::ArrayRef<int64_t> mask);
  /// Transposes `width` vectors.
  Values transpose(mlir::ValueRange rows);
  /// The sum of all lanes, in a fixed order.
  mlir::Value sumLanes(mlir::Value vector);

  //===--- Floating point (scalars and vectors) --------------------------===//
  // No flag promises that a NaN is absent: NaNs pass through.

  mlir::Value addF(mlir::Value a, mlir::Value b);
  mlir::Value subF(mlir::Value a, mlir::Value b);
  mlir::Value mulF(mlir::Value a, mlir::Value b);
  mlir::Value divF(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  /// a > b ? a : b, one instruction: gives b where either is NaN.
  mlir::Value maxF(mlir::Value a, mlir::Value b);
  mlir::Value compareF(mlir::arith::CmpFPredicate predicate, mlir::Value a,
                       mlir::Value b);
  mlir::Value selectF(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// f64 of f32, and f32 of f64.
  mlir::Value widen(mlir::Value value);
  mlir::Value narrow(mlir::Value value);
  /// The sum of numbers in f64, or of f32 to be widened.
  mlir::Value addF64(mlir::Value a, mlir::Value b);
  /// The type of a number or vector with other elements.
  static mlir::Type withElement(mlir::Value value, mlir::Type element);

protected:
  /// Whether code is of one thread: what else are vectors are scalars.
  bool isOfThread = false;

private:
  int64_t lanesOfVector;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_VECTORBUILDER_H
