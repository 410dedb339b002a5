//===- Terms.h - Numbers of f32 as sums of bf16 -----------------*- C++ -*-===//
//
// A number of f32 is the sum of three of bf16, its terms, of which each has
// eight bits of it: a matrix unit of bf16 multiplies numbers of f32 by their
// terms (UnitProduct.h). Of nine products of terms six matter. What the other
// three add up to is below 2^-23 of the product, 2^-26 on average.
//
// Terms of one operand are rounded, so that what is left out has either sign;
// those of the other are cut off, which takes half the instructions: Q and dO
// are rounded, and K and V where they meet scores.
//
// A number that is not finite, or beyond the range of bf16 (3.39e38), has NaN
// among its terms.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_TERMS_H
#define SEXTANT_CODEGEN_TILES_TERMS_H

#include "codegen/Emit/KernelBuilder.h"
#include <array>

namespace sextant::codegen {

inline constexpr int64_t countOfTerms = 3;

/// Two vectors of f32 as three of pairs of bf16, the greatest terms first.
using Terms = std::array<mlir::Value, countOfTerms>;

/// Which numbers of two vectors are pairs.
enum class Pairs {
  Rows,      ///< (low[l], high[l])
  Neighbours ///< (low[0], low[1]), ..., then those of `high`
};

/// Whether terms are rounded or cut off.
enum class Split { Rounds, Cuts };

Terms splitPair(KernelBuilder &kernel, mlir::Value low, mlir::Value high,
                Pairs pairs, Split split);

/// Stores terms `distance` words apart.
void storeTerms(KernelBuilder &kernel, const Terms &terms, mlir::Value to,
                Index distance);

/// Words of a row of terms of `elements` elements: whole steps of a product of
/// tiles.
int64_t getTermWords(int64_t elements);

/// Rows of f32, `stride` words apart. Elements behind the last one, which
/// whole steps of a product have, are zero as terms.
struct RowsOfTerms {
  mlir::Value from;
  int64_t stride = 0, elements = 0;
};

/// The terms of `count` rows go to to[term * distance + row *
/// getTermWords(elements)], pairs of neighbours.
void splitRows(KernelBuilder &kernel, const RowsOfTerms &rows, Index count,
               Split split, mlir::Value to, Index distance);

/// The terms of a vector of rows of `elements` elements, times the factor,
/// transposed: pair k of row l goes to to[term * distance + k * stride + l].
void splitTransposed(KernelBuilder &kernel, llvm::ArrayRef<mlir::Value> rows,
                     int64_t elements, Split split, mlir::Value to,
                     int64_t stride, Index distance, double factor = 1.0);

/// The rounded terms of 2 * MatrixUnit::side rows, turned, as turnPairs has
/// pairs of bf16: to[term * distance + n * stride + l] is the pair of element n
/// of rows 2 l and 2 l + 1.
void splitTurned(KernelBuilder &kernel, const RowsOfTerms &rows, mlir::Value to,
                 int64_t stride, Index distance);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_TERMS_H
