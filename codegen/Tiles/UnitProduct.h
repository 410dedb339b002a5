//===- UnitProduct.h - A product of a matrix unit ---------------*- C++ -*-===//
//
// Where a target has registers for tiles of matrices (MatrixUnit), products of
// bf16 go from memory to memory: sums in four of these registers, factors in
// the other four.
//
// Of operands of f32 it is the product of six pairs of their terms (Terms.h),
// as exact as one of f32, in a sixth of the unit's rate. Terms lie apart: all
// first ones of an operand, all second ones, all third ones.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_UNITPRODUCT_H
#define SEXTANT_CODEGEN_TILES_UNITPRODUCT_H

#include "codegen/Emit/KernelBuilder.h"
#include <optional>

namespace sextant::codegen {

/// sums[m][n] = the sum over k < `words` of the dots of a[m][k] and b[k][n],
/// for m < `rows` and n < `block`. Words are pairs of bf16, sums f32.
struct UnitProduct {
  /// Rows, and columns, of the sums that are in registers together.
  static constexpr int64_t block = 2 * MatrixUnit::side;
  /// Elements of bf16 of a step of the contraction.
  static constexpr int64_t depth = 2 * MatrixUnit::side;

  /// Words from a row to the next. The steps of the contraction of `a`, each of
  /// `side` words, may lie apart: word k of a row, where a step begins, is then
  /// at k * aStep.
  mlir::Value a;
  Index aStride = 0;
  int64_t aStep = 1;
  mlir::Value b;
  Index bStride = 0;
  mlir::Value sums;
  Index stride = 0;
  /// Computed to the next multiple of `block`.
  Index rows = block;
  Index words = 0;
  /// Added to what is there.
  bool adds = false;
  /// Of numbers of f32, whose terms are so many words apart.
  struct TermPlaces {
    Index a = 0, b = 0;
    /// The product with `a` and `b` in each other's place adds up the pairs of
    /// terms in the same order, and so gives the same bits.
    bool haveChangedPlaces = false;
  };
  std::optional<TermPlaces> terms;
};

/// The whole steps, in words, that hold what is contracted over rows (or keys)
/// [low, high).
struct UnitSteps {
  UnitSteps(KernelBuilder &kernel, Index low, Index high)
      : first(
            kernel.mul(kernel.div(low, UnitProduct::depth), MatrixUnit::side)),
        end(kernel.mul(kernel.ceilDiv(high, UnitProduct::depth),
                       MatrixUnit::side)) {}

  Index first, end;
};

/// Writes the product.
void emitUnitProduct(KernelBuilder &kernel, const UnitProduct &product);

/// Pairs of rows, turned: to[n * stride + l], a word, is the pair of element n
/// of rows 2 l and 2 l + 1, for each of `elements` (a multiple of `depth`).
/// `from` has 2 * MatrixUnit::side rows, `distance` words apart.
void turnPairs(KernelBuilder &kernel, mlir::Value from, int64_t distance,
               int64_t elements, mlir::Value to, int64_t stride);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_UNITPRODUCT_H
