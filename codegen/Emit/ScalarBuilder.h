//===- ScalarBuilder.h - Constants and integers of kernels ------*- C++ -*-===//
//
// The lowest layer of KernelBuilder: constants, once each, and arithmetic on
// i64 that folds what is known while the kernel is written.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_SCALARBUILDER_H
#define SEXTANT_CODEGEN_EMIT_SCALARBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include <concepts>

namespace sextant::codegen {

/// An i64 that is a constant of the compiler or a value of the kernel.
class Index {
public:
  template <std::integral T> Index(T constant) : constant(constant) {}
  Index(mlir::Value value) : value(value) {}

  bool isConstant() const { return !value; }
  bool is(int64_t other) const { return !value && constant == other; }
  int64_t getConstant() const { return constant; }
  mlir::Value getValue() const { return value; }

private:
  int64_t constant = 0;
  mlir::Value value;
};

/// Writes scalars at the insertion point of `builder`. Constants go to the
/// start of the function's entry block, once each.
class ScalarBuilder {
public:
  ScalarBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Block &entry);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type i1, i16, i32, i64, f32, f64, bf16;

  //===--- Constants -----------------------------------------------------===//

  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value constantI1(bool value);
  mlir::Value constantI64(int64_t value);
  mlir::Value constantI32(int32_t value);
  mlir::Value constantF32(double value);
  /// Zero, or a vector of zeros.
  mlir::Value zero(mlir::Type type);

  //===--- Integers (i64) ------------------------------------------------===//

  /// The index as a value.
  mlir::Value value(Index index);
  Index add(Index a, Index b);
  Index sub(Index a, Index b);
  Index mul(Index a, Index b);
  /// Quotient and remainder of values that are not negative.
  Index div(Index a, Index b);
  Index rem(Index a, Index b);
  Index ceilDiv(Index a, Index b) { return div(add(a, sub(b, 1)), b); }
  Index roundUp(Index a, Index b) { return mul(ceilDiv(a, b), b); }
  Index min(Index a, Index b);
  Index max(Index a, Index b);
  Index select(mlir::Value condition, Index a, Index b);
  /// Signed comparison, an i1.
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, Index a, Index b);
  mlir::Value less(Index a, Index b);
  mlir::Value equal(Index a, Index b);
  mlir::Value differ(Index a, Index b);
  /// The index as an i32, and the other way round.
  mlir::Value toI32(Index index);
  Index fromI32(mlir::Value value);

  //===--- Conditions (i1 and vectors of i1) -----------------------------===//

  /// Where one operand is null, the other one.
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);

private:
  mlir::Block &entry;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

/// The same number, which must fit 31 bits and is known to from here on: a
/// division of two such is one of 32 bits.
Index asShort(ScalarBuilder &builder, Index index);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_SCALARBUILDER_H
